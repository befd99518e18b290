//! `GET /v1/images`: the runtime's images. `GET /v1/images/unused`: those that nothing uses, and when they go; `POST /v1/images/prune`:
//! removes them. `GET /v1/pulls`: the pulls in progress, their pods, and the download progress.

use std::sync::Arc;

use axum::extract::State;
use axum::routing::{get, post};
use axum::{Json, Router};
use hostlet_image::gc::ImageGc;
use hostlet_runtime::cri::ImageService;
use jiff::Timestamp;

use super::error::RequestError;
use super::pulls::ImagePulls;
use super::unused_images::{PruneView, UnusedImagesView};
use super::view::{ImageView, PullsView};

/// The images on this node and those on their way.
pub struct ImageEndpoints {
    /// The runtime's images.
    pub runtime: Arc<dyn ImageService>,
    /// The pulls in progress.
    pub pulls: ImagePulls,
    /// The garbage collection of images.
    pub gc: ImageGc,
}

impl ImageEndpoints {
    /// The endpoints.
    pub(super) fn routes(self) -> Router {
        Router::new()
            .route("/v1/images", get(images))
            .route("/v1/images/unused", get(unused))
            .route("/v1/images/prune", post(prune))
            .route("/v1/pulls", get(pulls))
            .with_state(Arc::new(self))
    }
}

/// All images, by name.
async fn images(State(endpoints): State<Arc<ImageEndpoints>>) -> Result<Json<Vec<ImageView>>, RequestError> {
    let listed = endpoints.runtime.list_images().await?;
    let mut images: Vec<ImageView> = listed
        .into_iter()
        .map(|image| ImageView { id: image.id, tags: image.tags, digests: image.digests, size: image.size })
        .collect();
    let key = |image: &ImageView| (image.tags.clone(), image.digests.clone(), image.id.clone());
    images.sort_by_cached_key(key);
    Ok(Json(images))
}

/// The images that nothing uses, in the order in which they go.
async fn unused(
    State(endpoints): State<Arc<ImageEndpoints>>,
) -> Result<Json<UnusedImagesView>, RequestError> {
    let unused = endpoints.gc.unused().await.map_err(RequestError::ImageGc)?;
    Ok(Json(unused.into()))
}

/// Removes every image that may be removed. It goes on if the client does not wait.
async fn prune(State(endpoints): State<Arc<ImageEndpoints>>) -> Result<Json<PruneView>, RequestError> {
    tracing::info!("the removal of all unused images was requested");
    let freed = endpoints.gc.delete_unused().await.map_err(RequestError::ImageGc)?;
    Ok(Json(freed.into()))
}

/// The pulls in progress, oldest first.
async fn pulls(State(endpoints): State<Arc<ImageEndpoints>>) -> Json<PullsView> {
    Json(endpoints.pulls.view(Timestamp::now()).await)
}
