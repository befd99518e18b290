//! The host: memory, names, mounts, own process limits, kernel facts. Does not know what a pod is.

mod changes;
mod dirs;
mod error;
mod file_work;
mod host;
mod limits;
mod lock_file;
mod mounts;
mod remove;
mod watch;

pub use changes::{Changes, Progress};
pub use dirs::HostDirs;
pub use error::SysError;
pub use file_work::file_work;
pub use host::{Host, root_check};
pub use limits::{Applied, raise_open_files, set_oom_score_adj};
pub use lock_file::LockFile;
pub use mounts::{KernelMounts, Mount, MountTable, Mounts};
pub use remove::{real_path, remove_tree};
pub use watch::Watch;
