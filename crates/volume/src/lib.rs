//! Volumes from the host, from objects of the API server and from servers: emptyDir, hostPath, configMap, secret, downwardAPI,
//! projected, nfs, and PersistentVolumes of the types hostPath, local and nfs. Sets them up, keeps them up to date and tears them
//! down. Knows nothing of containers, and does not decide whether a pod runs.
//!
//! A worker calls [`Volumes::set_up`] in each sync before it starts anything of the pod. A [`VolumeProblem`] is the text of an
//! event `FailedMount`; containers start only when all volumes are in [`PodVolumes::mounted`], and [`Volumes::changed`] names a
//! pod when a retry is worthwhile. The worker calls [`Volumes::tear_down`] once nothing of the pod runs, before its directory
//! is removed. Where no daemon runs, [`tear_down`] does it.
//!
//! A kind of volumes is a file of `kinds/` and a line of its registry; what it says of a volume are values of `model`, which the rest
//! works with. For each volume: the desired state (`desired`, by its kind, from the spec and from the objects, claims and tokens of
//! `sources`), the actual state (`actual`, from disk and mounts alone), the operations between the two (`plan`, pure), executed
//! by `execute`; mounts of what outlives the pod are the exception (`external`, `remote`). What may block for long is done on
//! `threads` of its own. A `reconciler` does that repeatedly for one pod; `task` owns the reconcilers.

mod actual;
mod apply;
mod desired;
mod devices;
mod driver_dirs;
mod error;
mod execute;
mod external;
mod files;
mod growth;
mod kinds;
mod layout;
mod local;
mod metrics;
mod model;
mod path_type;
mod plan;
mod published;
mod read;
mod ready;
mod reconciler;
mod remembered;
mod remote;
mod shared;
mod sources;
mod sub_path;
mod task;
mod teardown;
#[cfg(test)]
mod testing;
mod threads;
mod token;

pub use actual::unknown_plugins;
pub use error::{ContentError, HostError, VolumeError, VolumeProblem, VolumeStep};
pub use files::PathError;
pub use kinds::{cause_rules, container_named, resource_value};
pub use local::{empty_dir_path, local_volume_dir, own_volume_dir};
pub use model::{NodeAmounts, NodeLabels};
pub use read::ReadError;
pub use ready::{Device, Mounted, PodVolumes};
pub use reconciler::VolumeOwner;
pub use sources::volume_references;
pub use sub_path::{SubPath, SubPathError};
pub use task::{VolumeSettings, VolumeTask, Volumes};
pub use teardown::tear_down;
pub use threads::VolumeThreads;

#[cfg(test)]
hostlet_host::work_in_place!();
