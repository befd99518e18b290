//! The ImageService calls.

use async_trait::async_trait;

use super::super::calls::CallSubject;
use super::super::types::{ImageFilesystem, ImageInfo};
use super::super::wire;
use super::super::{CriError, ImageService, Operation};
use super::connection::CriClient;
use super::convert;
use super::streams::{self, Batches};

fn spec(image: &str) -> wire::ImageSpec {
    wire::ImageSpec { image: image.to_owned(), ..wire::ImageSpec::default() }
}

#[async_trait]
impl ImageService for CriClient {
    async fn image_status(&self, image: &str) -> Result<Option<ImageInfo>, CriError> {
        let request = wire::ImageStatusRequest { image: Some(spec(image)), verbose: false };
        let call = async { self.image().image_status(request).await };
        let answer = self.call(Operation::ImageStatus, CallSubject::Image(image.to_owned()), call).await?;
        Ok(answer.image.map(convert::image))
    }

    async fn pull_image(
        &self,
        image: &str,
        auth: Option<wire::AuthConfig>,
        sandbox: Option<wire::PodSandboxConfig>,
    ) -> Result<String, CriError> {
        let request = wire::PullImageRequest { image: Some(spec(image)), auth, sandbox_config: sandbox };
        match self.image().pull_image(request).await {
            Ok(answer) => Ok(answer.into_inner().image_ref),
            Err(status) => Err(self.error(Operation::PullImage, &status)),
        }
    }

    async fn list_images(&self) -> Result<Vec<ImageInfo>, CriError> {
        let stream = async { self.image().stream_images(wire::StreamImagesRequest { filter: None }).await };
        let batches = Batches { stream, items: |batch: wire::StreamImagesResponse| batch.images };
        let request = wire::ListImagesRequest { filter: None };
        let call = async { self.image().list_images(request).await };
        let images =
            streams::list(self, Operation::ListImages, batches, call, |answer| answer.images).await?;
        Ok(images.into_iter().map(convert::image).collect())
    }

    async fn image_filesystems(&self) -> Result<Vec<ImageFilesystem>, CriError> {
        let call = async { self.image().image_fs_info(wire::ImageFsInfoRequest {}).await };
        let answer = self.call(Operation::ImageFsInfo, CallSubject::Node, call).await?;
        Ok(answer.image_filesystems.into_iter().filter_map(convert::image_filesystem).collect())
    }
}
