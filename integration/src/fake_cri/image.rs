//! The ImageService on the wire.

use hostlet_runtime::cri::ImageService as _;
use hostlet_runtime::cri::fake::FakeRuntime;
use hostlet_runtime::cri::wire::{self, image_service_server::ImageService};
use tonic::{Request, async_trait};

use super::status::{Outcome, answer, missing};

/// Serves a runtime's images.
pub(super) struct Images {
    fake: FakeRuntime,
}

impl Images {
    pub(super) fn new(fake: FakeRuntime) -> Self {
        Self { fake }
    }
}

#[async_trait]
impl ImageService for Images {
    async fn list_images(
        &self,
        request: Request<wire::ListImagesRequest>,
    ) -> Outcome<wire::ListImagesResponse> {
        let wanted = request.into_inner().filter.and_then(|filter| filter.image).map(|spec| spec.image);
        answer(self.fake.list_images().await, |_| wire::ListImagesResponse {
            images: match wanted.filter(|image| !image.is_empty()) {
                Some(image) => self.fake.wire_image(&image).into_iter().collect(),
                None => self.fake.wire_images(),
            },
        })
    }

    async fn image_status(
        &self,
        request: Request<wire::ImageStatusRequest>,
    ) -> Outcome<wire::ImageStatusResponse> {
        let spec = request.into_inner().image.ok_or_else(|| missing("image"))?;
        answer(self.fake.image_status(&spec.image, &spec.annotations).await, |found| {
            wire::ImageStatusResponse {
                image: found.and_then(|info| self.fake.wire_image(&info.id)),
                ..wire::ImageStatusResponse::default()
            }
        })
    }

    async fn pull_image(&self, request: Request<wire::PullImageRequest>) -> Outcome<wire::PullImageResponse> {
        let request = request.into_inner();
        let image = request.image.ok_or_else(|| missing("image"))?.image;
        answer(self.fake.pull_image(&image, request.auth, request.sandbox_config).await, |image_ref| {
            wire::PullImageResponse { image_ref }
        })
    }

    async fn remove_image(
        &self,
        request: Request<wire::RemoveImageRequest>,
    ) -> Outcome<wire::RemoveImageResponse> {
        let image = request.into_inner().image.ok_or_else(|| missing("image"))?.image;
        answer(self.fake.remove_image(&image).await, |()| wire::RemoveImageResponse {})
    }

    async fn image_fs_info(
        &self,
        _: Request<wire::ImageFsInfoRequest>,
    ) -> Outcome<wire::ImageFsInfoResponse> {
        answer(self.fake.image_filesystems_like().await, |found| found)
    }
}
