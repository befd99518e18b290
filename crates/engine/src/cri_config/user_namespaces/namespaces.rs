//! Gives pods their ID ranges, which are on the disk before anybody uses them.

use std::path::PathBuf;
use std::sync::Arc;

use hostlet_base::{PodUid, error_chain};
use hostlet_host::file_work;
use parking_lot::Mutex;
use tokio::sync::OnceCell;

use super::file::{self, MappingError, remove_mappings};
use super::ranges::{IdRange, RangeError, Ranges};
use super::subordinate::{SubordinateIds, SubordinateIdsError};
use crate::cri_config::dirs::{PodDirError, pod_dirs};

/// Why a pod has no ID range.
#[derive(Debug, thiserror::Error)]
pub(crate) enum UserNamespaceError {
    /// The runtime's handler has no user namespaces. The text is upstream's.
    #[error("can't set `spec.hostUsers: false`, {}", unsupported(.0))]
    Unsupported(String),
    /// The IDs of the host's user `kubelet` could not be read.
    #[error("kubelet mappings")]
    Subordinate(#[from] SubordinateIdsError),
    /// The ranges of pods from before could not be listed.
    #[error("read pods from disk")]
    Pods(#[from] PodDirError),
    /// There is no range for the pod.
    #[error("create user namespace")]
    Range(#[from] RangeError),
    /// The file with the pod's range cannot be read or written.
    #[error("user namespace")]
    File(#[from] MappingError),
    /// The work panicked.
    #[error("the work panicked")]
    Panicked,
}

fn unsupported(handler: &str) -> String {
    match handler {
        "" => "runtime does not support user namespaces".to_owned(),
        handler => format!("RuntimeClass handler {handler:?} does not support user namespaces"),
    }
}

/// The ID ranges of this host's pods. Reads nothing before the first pod needs one.
#[derive(Debug)]
pub(crate) struct UserNamespaces {
    root: PathBuf,
    ids_per_pod: u32,
    max_pods: usize,
    ids: SubordinateIds,
    ranges: OnceCell<Arc<Mutex<Ranges>>>,
}

impl UserNamespaces {
    /// The ranges below the daemon's directory `root`. Each has `ids_per_pod` IDs (`userNamespaces.idsPerPod`), and there are
    /// enough of them for `max_pods` pods.
    pub(crate) fn new(root: PathBuf, ids_per_pod: u32, max_pods: usize, ids: SubordinateIds) -> Self {
        Self { root, ids_per_pod, max_pods, ids, ranges: OnceCell::new() }
    }

    /// The range of a pod, which has a directory: the one it has, or a new one, which is on the disk when this returns.
    pub(crate) async fn of_pod(&self, uid: &PodUid) -> Result<IdRange, UserNamespaceError> {
        let ranges = self.ranges.get_or_try_init(|| self.read()).await?.clone();
        let (root, uid) = (self.root.clone(), uid.clone());
        let work = move || {
            // Held during the write: nobody else gets the range meanwhile.
            let mut ranges = ranges.lock();
            if let Some(range) = file::read(&root, &uid)? {
                ranges.record(&uid, range)?;
                return Ok(range);
            }
            let range = ranges.allocate(&uid)?;
            file::write(&root, &uid, range).inspect_err(|_| ranges.release(&uid))?;
            Ok(range)
        };
        file_work(work).await.unwrap_or(Err(UserNamespaceError::Panicked))
    }

    /// Frees the range of a pod of which nothing runs. Blocking. Idempotent.
    pub(crate) fn release(&self, uid: &PodUid) -> Result<(), PodDirError> {
        remove_mappings(&self.root, uid)?;
        if let Some(ranges) = self.ranges.get() {
            ranges.lock().release(uid);
        }
        Ok(())
    }

    async fn read(&self) -> Result<Arc<Mutex<Ranges>>, UserNamespaceError> {
        let pool = self.ids.pool(self.ids_per_pod).await?;
        let mut ranges = Ranges::new(pool, self.ids_per_pod, self.max_pods)?;
        let root = self.root.clone();
        let read = move || {
            for uid in pod_dirs(&root)? {
                let known = file::read(&root, &uid).map_err(|error| error_chain(&error));
                let recorded = known.and_then(|range| {
                    range
                        .map_or(Ok(()), |range| ranges.record(&uid, range))
                        .map_err(|error| error_chain(&error))
                });
                if let Err(error) = recorded {
                    // The pod itself gets the error again.
                    tracing::warn!(%uid, error, "cannot use the user namespace of a pod");
                }
            }
            Ok(Arc::new(Mutex::new(ranges)))
        };
        file_work(read).await.unwrap_or(Err(UserNamespaceError::Panicked))
    }
}
