//! What a shutdown of the node demands of admission. Plain values; whether the node shuts down is decided elsewhere.

use std::collections::BTreeMap;

use hostlet_base::{PodUid, reasons};
use hostlet_pod::{PodKill, Rejection};

/// A shutdown of the node, as far as it affects which pods run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeShutdown {
    /// Whether the node is shutting down: no pod is admitted meanwhile.
    pub is_under_way: bool,
    /// The pods that it terminates, also those of an earlier shutdown that their source still names.
    pub kills: BTreeMap<PodUid, PodKill>,
}

/// Upstream's rejection of a pod that arrives during the shutdown.
pub(super) fn rejection() -> Rejection {
    Rejection::new(reasons::NODE_SHUTDOWN, "Pod was rejected as the node is shutting down.")
}
