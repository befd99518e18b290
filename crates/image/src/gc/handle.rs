//! The handle: what others ask of the collection.

use tokio::sync::{mpsc, oneshot, watch};

use super::error::GcError;
use super::request::{Freed, Request, UnusedImages};

/// Where requests go while the task runs.
pub(super) type Door = Option<mpsc::Sender<Request>>;

/// The garbage collection of images. Cheap to clone.
#[derive(Clone, Debug)]
pub struct ImageGc {
    door: watch::Receiver<Door>,
}

impl ImageGc {
    pub(super) fn new(door: watch::Receiver<Door>) -> Self {
        Self { door }
    }

    /// Removes every image that nothing uses, except pinned ones, those of archives in `imagePreloadDir`, and those detected less than
    /// `imageMinimumGCAge` ago; upstream's `DeleteUnusedImages`, which evictions call before they evict. It goes on if the caller stops
    /// waiting. Calls to the runtime that fail are part of the result.
    pub async fn delete_unused(&self) -> Result<Freed, GcError> {
        self.request(Request::DeleteUnused).await
    }

    /// The images that nothing uses, in the order in which they go. Removes nothing.
    pub async fn unused(&self) -> Result<UnusedImages, GcError> {
        self.request(Request::Unused).await
    }

    async fn request<T>(
        &self,
        request: impl FnOnce(oneshot::Sender<Result<T, GcError>>) -> Request,
    ) -> Result<T, GcError> {
        let door = self.door.borrow().clone().ok_or(GcError::NotRunning)?;
        let (answer, answered) = oneshot::channel();
        door.send(request(answer)).await.map_err(|_| GcError::NotRunning)?;
        answered.await.map_err(|_| GcError::NotRunning)?
    }
}
