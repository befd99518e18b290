//! What the first pods wait for, each for a short time: nothing here may keep them from starting.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use hostlet_base::node::NodeAddresses;
use hostlet_host::file_work;
use hostlet_image::Images;
use tokio::sync::watch;
use tokio::time::timeout;

use crate::housekeeping::PodsLimit;

/// Maximum wait of the first pods for the node's addresses.
const FIRST_ADDRESSES: Duration = Duration::from_secs(1);
/// Maximum wait of the first pods for logind.
const LOGIND_PATIENCE: Duration = Duration::from_secs(1);

/// What has to be done and known before the first pod.
pub(super) struct FirstPods {
    pub(super) images: Images,
    pub(super) root_dir: PathBuf,
    /// `None` without cgroups of pods.
    pub(super) pods_limit: Option<Arc<PodsLimit>>,
    pub(super) addresses: NodeAddresses,
    /// Whether logind was asked.
    pub(super) is_checked: watch::Receiver<bool>,
}

impl FirstPods {
    /// Returns when pods may start. Cancel-safe: the next daemon does it again.
    pub(super) async fn ready(mut self) {
        // Not before: on a first start that is refused, the records are still being written.
        self.images.take_over_records(&self.root_dir).await;
        if let Some(limit) = self.pods_limit
            && let Err(error) = file_work(move || limit.apply()).await
        {
            tracing::error!(%error, "limiting all pods together panicked; housekeeping tries again");
        }
        // Usually known by now. Waiting avoids statuses without addresses, but pods must not wait for a name server.
        let addresses = timeout(FIRST_ADDRESSES, self.addresses.known());
        // A host that is shutting down already starts no pod.
        let is_checked = &mut self.is_checked;
        let logind =
            async { drop(timeout(LOGIND_PATIENCE, is_checked.wait_for(|is_checked| *is_checked)).await) };
        let _ = tokio::join!(addresses, logind);
    }
}
