//! The volumes of pods that come from the host itself or from objects of the API server: emptyDir, hostPath, configMap,
//! secret, downwardAPI and projected. Makes them, keeps them up to date and takes them down. Knows nothing of containers,
//! and never asks whether a pod should run.
//!
//! How the worker of a pod uses it: [`Volumes::set_up`] in each sync, before anything of the pod starts. A
//! [`VolumeProblem`] is the text of an event `FailedMount`; a volume that is not in [`PodVolumes::mounted`] keeps the pod's
//! containers from starting, and is not worth more than a back-off: [`Volumes::changed`] names the pod when it is worth
//! trying. [`Volumes::tear_down`] once nothing of the pod runs, before its directory is removed. Pods that no worker knows
//! are taken down by [`tear_down`].
//!
//! The way of one volume: what it is to be (`desired`, from the spec by its kind in `kinds/`, and from what `sources` knows
//! of objects and tokens), what it is (`actual`, from the disk and the mounts alone), the operations between the two
//! (`plan`, pure), each performed by `execute`. A `keeper` does that for one pod, again and again; `task` owns the keepers.

mod actual;
mod apply;
mod desired;
mod error;
mod execute;
mod files;
mod kinds;
mod layout;
mod plan;
mod reconciler;
mod sources;
mod task;
#[cfg(test)]
mod testing;
mod token;

pub use apply::{Mounted, PodVolumes, tear_down};
pub use desired::NodeAmounts;
pub use error::{ContentError, HostError, VolumeError, VolumeProblem};
pub use files::PathError;
pub use kinds::resource_value;
pub use reconciler::VolumeOwner;
pub use task::{VolumeSettings, VolumeTask, Volumes};
