//! `GET /v1/images`: the runtime's images.

use axum::Json;
use axum::extract::State;
use tokio_util::sync::CancellationToken;

use super::control::ControlServer;
use super::error::RequestError;
use super::view::ImageView;

/// All images, by name.
pub(super) async fn images(
    State((server, _)): State<(ControlServer, CancellationToken)>,
) -> Result<Json<Vec<ImageView>>, RequestError> {
    let listed = server.runtime_images.list_images().await?;
    let mut images: Vec<ImageView> = listed
        .into_iter()
        .map(|image| ImageView { id: image.id, tags: image.tags, digests: image.digests, size: image.size })
        .collect();
    let key = |image: &ImageView| (image.tags.clone(), image.digests.clone(), image.id.clone());
    images.sort_by_cached_key(key);
    Ok(Json(images))
}
