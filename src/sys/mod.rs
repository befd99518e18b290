//! The host: memory, names, mounts, own process limits, kernel facts. Does not know what a pod is.

mod dirs;
mod error;
mod host;
mod limits;
mod lock_file;
mod mounts;
mod remove;
mod watch;

pub use dirs::HostDirs;
pub use error::SysError;
pub use host::{Host, root_check};
pub use limits::{Applied, raise_open_files, set_oom_score_adj};
pub use lock_file::LockFile;
pub use mounts::{KernelMounts, Mount, MountTable, Mounts};
pub use remove::{real_path, remove_tree};
pub use watch::Watch;
