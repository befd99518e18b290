//! What graceful shutdowns leave on a host. A stock kubelet's have the same names.

use std::path::{Path, PathBuf};

use super::delay::raised_delay;
use super::record::state_file;

/// The files that exist: the times of the last shutdown in the root directory, and logind's raised delay below `etc`.
pub fn shutdown_files(root_dir: &Path, etc: &Path) -> Vec<PathBuf> {
    let times = Some(state_file(root_dir)).filter(|path| path.symlink_metadata().is_ok());
    times.into_iter().chain(raised_delay(etc)).collect()
}
