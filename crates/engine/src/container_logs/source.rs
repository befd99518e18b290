//! Opens the log of one instance of a container, once or followed.

use std::io;
use std::time::Duration;

use bytes::Bytes;
use futures::stream::{BoxStream, StreamExt, unfold};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use hostlet_base::{ContainerId, PodRef, error_chain};
use hostlet_observe::log::{LogError, LogOptions, LogStreaming, LogWatches, Until};
use hostlet_observe::pleg::PlegHandle;
use hostlet_observe::status::StatusCache;
use hostlet_runtime::cri::ContainerState;

/// Poll interval of a container without a status change of its pod.
const RECHECK: Duration = Duration::from_secs(1);

/// The logs of all containers. Cheap to clone.
#[derive(Clone)]
pub struct ContainerLogs {
    /// Knows where the logs are.
    pub pleg: PlegHandle,
    /// Signals that a pod's containers have changed.
    pub status_cache: StatusCache,
    /// Reports changes of followed logs.
    pub watches: LogWatches,
}

impl ContainerLogs {
    /// Opens the log of an instance; a followed one ends when the instance has exited or was removed. `None` if the runtime does not
    /// have the instance.
    ///
    /// # Errors
    /// The log could not be opened.
    pub async fn open(
        &self,
        pod: &PodRef,
        id: &ContainerId,
        options: LogOptions,
        follow: bool,
    ) -> Result<Option<LogStreaming>, LogError> {
        let Ok(observed) = self.pleg.cache().get(pod) else { return Ok(None) };
        let path = observed.containers.iter().find(|container| container.id == *id);
        let Some(path) = path.map(|container| &container.log_path).filter(|path| !path.is_empty()) else {
            return Ok(None);
        };
        let until = if follow {
            let ended = self.clone().ended(pod.clone(), id.clone());
            Until::Ended(Box::pin(ended), self.watches.clone())
        } else {
            Until::Now
        };
        LogStreaming::open(path.into(), options, until).await.map(Some)
    }

    /// Waits until a container has exited or was removed. One that cannot be inspected may still run.
    async fn ended(self, pod: PodRef, id: ContainerId) {
        let mut changes = self.status_cache.changes();
        let may_run = |state: ContainerState| match state {
            ContainerState::Created | ContainerState::Running | ContainerState::Unknown => true,
            ContainerState::Exited => false,
        };
        let may_write = || match self.pleg.cache().get(&pod) {
            Err(_) => true,
            Ok(observed) => {
                let mut own = observed.containers.iter().filter(|container| container.id == id);
                own.any(|container| may_run(container.state))
            }
        };
        while may_write() {
            tokio::select! {
                // Cancel-safe: a watch marks its value seen only when `changed` returns.
                Ok(()) = changes.changed() => {}
                // Cancel-safe: a sleep.
                () = sleep(RECHECK) => {}
            }
        }
    }
}

/// The text of a log, as a body. On an error and at shutdown the connection is aborted, because a regular end means that the log is
/// complete.
pub fn until_cancelled(
    log: LogStreaming,
    cancel: CancellationToken,
) -> BoxStream<'static, io::Result<Bytes>> {
    let next = |state: Option<(BoxStream<'static, Result<Bytes, LogError>>, CancellationToken)>| async move {
        let (mut log, cancel) = state?;
        let piece = tokio::select! {
            // Cancel-safe: stops reading the log.
            () = cancel.cancelled() => return Some((Err(io::Error::other("hostlet is shutting down")), None)),
            // Cancel-safe: a stream yields an item only when ready.
            piece = log.next() => piece?,
        };
        match piece {
            Ok(text) => Some((Ok(text), Some((log, cancel)))),
            Err(error) => {
                tracing::warn!(error = error_chain(&error), "aborted a log stream");
                Some((Err(io::Error::other(error)), None))
            }
        }
    };
    unfold(Some((log.into_stream().boxed(), cancel)), next).boxed()
}
