//! `GET /v1/images`: the runtime's images. `GET /v1/pulls`: the pulls in progress, their pods, and the download progress.

use std::sync::Arc;

use axum::extract::State;
use axum::routing::get;
use axum::{Json, Router};
use hostlet_runtime::cri::ImageService;
use jiff::Timestamp;

use super::error::RequestError;
use super::pulls::ImagePulls;
use super::view::{ImageView, PullsView};

/// The images on this node and those on their way.
pub struct ImageEndpoints {
    /// The runtime's images.
    pub runtime: Arc<dyn ImageService>,
    /// The pulls in progress.
    pub pulls: ImagePulls,
}

impl ImageEndpoints {
    /// Both endpoints.
    pub(super) fn routes(self) -> Router {
        Router::new()
            .route("/v1/images", get(images))
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

/// The pulls in progress, oldest first.
async fn pulls(State(endpoints): State<Arc<ImageEndpoints>>) -> Json<PullsView> {
    Json(endpoints.pulls.view(Timestamp::now()).await)
}
