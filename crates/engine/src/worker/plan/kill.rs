//! The stop of a container as a part of a plan. Decides nothing.

use hostlet_base::ContainerId;

/// A container to stop.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::worker) struct Kill {
    /// Which one.
    pub(in crate::worker) id: ContainerId,
    /// Its name in the pod.
    pub(in crate::worker) name: String,
    /// Why, for the `Killing` event.
    pub(in crate::worker) message: String,
    /// Its grace period.
    pub(in crate::worker) grace_seconds: i64,
}
