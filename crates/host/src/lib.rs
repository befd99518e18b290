//! The host: memory, names, mounts, the daemon's limits, kernel facts, cgroups. Knows pods only as directories and cgroups.

mod address_changes;
mod addresses;
mod blocking;
pub mod cgroup;
mod changes;
mod clock;
mod cni_results;
mod daemon_unit;
mod dirs;
mod disk;
mod error;
mod filesystem;
mod group_tree;
mod host;
mod inside;
mod kernel_log;
mod limits;
mod lock_file;
mod loop_device;
mod machine;
mod memory_alarm;
mod mounts;
mod open;
mod pod_dirs;
mod processes;
mod program;
mod remove;
mod replace_file;
mod selinux;
mod shared_dir;
#[cfg(any(test, feature = "fakes"))]
#[doc(hidden)]
pub mod testing;
mod tree_usage;
mod tunables;
mod watch;

pub use address_changes::AddressChanges;
pub use addresses::{is_own_ip, outgoing_ips};
pub use blocking::{NameLookups, PathError, PathWork, Place, Places, file_work, path_unit, slow_work};
pub use changes::{Changes, Progress};
pub use clock::clock_is_synchronized;
pub use cni_results::{CNI_RESULTS, is_broken_result_error, remove_broken_results};
pub use daemon_unit::{DaemonUnit, DaemonUnitError};
pub use dirs::{HostDirs, checkpoints_dir, common_dirs};
pub use disk::{DiskError, Disks, HostDisks, prepare_disk};
pub use error::SysError;
pub use filesystem::{FilesystemUsage, filesystem_usage};
pub use group_tree::{GroupChange, set_group_of_tree};
pub use host::{Host, root_check};
pub use inside::{Inside, InsideError, open_existing_inside, open_inside};
pub use kernel_log::{KernelLog, KernelRecord};
pub use limits::{Applied, raise_open_files, set_oom_score_adj, share_one_heap, trim_heap};
pub use lock_file::LockFile;
pub use loop_device::detach_loop_devices;
pub use machine::{CpuLocation, CpuTopology, Machine, NodeFacts, NumaTopology};
pub use memory_alarm::{MemoryAlarm, StallKind, StallTrigger};
pub use mounts::{KernelMounts, Mount, MountCall, MountTable, Mounts, Origin, tmpfs_can_avoid_swap};
pub use open::{Links, open_regular};
pub use pod_dirs::{PodDirs, pods_dir};
pub use processes::{KubeletProcess, ProcessUsage, Shim, end_shim, kubelets, shims};
pub use program::{ProgramError, clip, run_program};
pub use remove::{is_missing, real_path, remove_mount_point, remove_tree};
pub use replace_file::{replace_file, sync_parent};
pub use selinux::{container_file_label, selinux_is_enabled};
pub use shared_dir::{Sharing, share_dir, unshare_dir};
pub use tree_usage::{SpaceUsage, TreeUsage, files_usage, tree_usage};
pub use tunables::Tunable;
pub use watch::Watch;

#[cfg(test)]
crate::work_in_place!();
