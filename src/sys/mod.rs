//! The host: memory, names, own process limits, kernel facts. Does not know what a pod is.

mod addresses;
mod dirs;
mod error;
mod host;
mod limits;
mod lock_file;
mod machine;
#[cfg(test)]
mod testing;
mod watch;

pub use addresses::{is_own_ip, outgoing_ips};
pub use dirs::HostDirs;
pub use error::SysError;
pub use host::{Host, root_check};
pub use limits::{Applied, raise_open_files, set_oom_score_adj};
pub use lock_file::LockFile;
pub use machine::Machine;
pub use watch::Watch;
