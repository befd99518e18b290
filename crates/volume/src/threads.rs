//! The threads for volumes that may block for long, by what they wait for, so that no kind of wait delays another. Each pod blocks a few
//! of each kind only.

use std::time::Duration;

use hostlet_host::PathWork;

/// How long an NFS volume is unmounted before that is forced (upstream's `unMountTimeout`).
const UNMOUNT_TIMEOUT: Duration = Duration::from_secs(60);

/// The threads by purpose.
#[derive(Clone, Debug)]
pub struct VolumeThreads {
    /// For paths that pods name, on this host or a server.
    pub(super) paths: PathWork,
    /// For volumes on this host, whose files are given to a group. That takes hours if there are millions.
    pub(super) local_volumes: PathWork,
    /// For unmounting remote filesystems, which a server that does not respond blocks.
    pub(super) unmounts: PathWork,
    /// For forcing what those do not achieve.
    pub(super) forced_unmounts: PathWork,
}

impl Default for VolumeThreads {
    fn default() -> Self {
        Self {
            paths: PathWork::default(),
            local_volumes: PathWork::default(),
            unmounts: PathWork::new(UNMOUNT_TIMEOUT),
            forced_unmounts: PathWork::default(),
        }
    }
}
