//! The host: memory, names, mounts, the daemon's limits, kernel facts. Does not know what a pod is.

mod address_changes;
mod addresses;
mod changes;
mod clock;
mod cni_results;
mod dirs;
mod error;
mod file_work;
mod group_tree;
mod host;
mod inside;
mod kubelets;
mod limits;
mod lock_file;
mod machine;
mod mounts;
mod path_work;
mod remove;
mod replace_file;
mod shims;
#[cfg(test)]
pub(crate) mod testing;
mod watch;

pub use address_changes::AddressChanges;
pub use addresses::{is_own_ip, outgoing_ips};
pub use changes::{Changes, Progress};
pub use clock::clock_is_synchronized;
pub use cni_results::{CNI_RESULTS, is_broken_result_error, remove_broken_results};
pub use dirs::HostDirs;
pub use error::SysError;
pub use file_work::file_work;
pub use group_tree::{GroupChange, set_group_of_tree};
pub use host::{Host, root_check};
pub use inside::{Inside, InsideError, open_existing_inside, open_inside};
pub use kubelets::{KubeletProcess, kubelets};
pub use limits::{Applied, raise_open_files, set_oom_score_adj, share_one_heap};
pub use lock_file::LockFile;
pub use machine::Machine;
pub use mounts::{KernelMounts, Mount, MountCall, MountTable, Mounts};
pub use path_work::{PathError, PathWork};
pub use remove::{real_path, remove_tree};
pub use replace_file::{replace_file, sync_parent};
pub use shims::{Shim, end_shim, shims};
pub use watch::Watch;
