//! The threads for volumes that may block for long, by what they wait for, so that no kind of wait delays another. Each pod blocks a few
//! of each kind only.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use hostlet_host::PathWork;
use parking_lot::Mutex;

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
    /// Between those that work on the filesystem of one device.
    pub(super) devices: DeviceLocks,
}

/// Lets one thread at a time mount or unmount the filesystem of a device, by the name of its volume: one pod's may be the first, another's the
/// last.
#[derive(Clone, Debug, Default)]
pub(super) struct DeviceLocks(Arc<Mutex<BTreeMap<String, Arc<Mutex<()>>>>>);

impl DeviceLocks {
    /// Works on the device of a volume. Blocks while another thread does.
    pub(super) fn with<T>(&self, volume: &str, work: impl FnOnce() -> T) -> T {
        let own = self.0.lock().entry(volume.to_owned()).or_default().clone();
        let locked = own.lock();
        let done = work();
        drop(locked);
        // The last one forgets it: the map and this thread have it.
        let mut all = self.0.lock();
        if Arc::strong_count(&own) <= 2 {
            all.remove(volume);
        }
        done
    }
}

impl Default for VolumeThreads {
    fn default() -> Self {
        Self {
            paths: PathWork::default(),
            local_volumes: PathWork::default(),
            unmounts: PathWork::new(UNMOUNT_TIMEOUT),
            forced_unmounts: PathWork::default(),
            devices: DeviceLocks::default(),
        }
    }
}
