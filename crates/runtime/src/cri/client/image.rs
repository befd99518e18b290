//! The ImageService calls.

use std::collections::HashMap;

use async_trait::async_trait;
use tokio::time::Instant;

use super::super::calls::CallSubject;
use super::super::types::{ImageFilesystem, ImageInfo, RuntimeFilesystems};
use super::super::wire;
use super::super::{CriError, ImageService, Operation};
use super::connection::CriClient;
use super::convert;
use super::streams::{self, Batches};

/// The image as a pod refers to it: with all of the pod's annotations, as upstream.
fn spec(image: &str, annotations: HashMap<String, String>) -> wire::ImageSpec {
    wire::ImageSpec { image: image.to_owned(), annotations, ..wire::ImageSpec::default() }
}

fn pull_request(
    image: &str,
    auth: Option<wire::AuthConfig>,
    sandbox: Option<wire::PodSandboxConfig>,
) -> wire::PullImageRequest {
    // The annotations of a sandbox are the pod's.
    let annotations = sandbox.as_ref().map(|sandbox| sandbox.annotations.clone()).unwrap_or_default();
    wire::PullImageRequest { image: Some(spec(image, annotations)), auth, sandbox_config: sandbox }
}

#[async_trait]
impl ImageService for CriClient {
    async fn image_status(
        &self,
        image: &str,
        annotations: &HashMap<String, String>,
    ) -> Result<Option<ImageInfo>, CriError> {
        let request =
            wire::ImageStatusRequest { image: Some(spec(image, annotations.clone())), verbose: false };
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
        let began = Instant::now();
        let answer = self.image().pull_image(pull_request(image, auth, sandbox)).await;
        self.calls().ended(Operation::PullImage, began, answer.is_err());
        match answer {
            Ok(answer) => Ok(answer.into_inner().image_ref),
            Err(status) => Err(self.error(Operation::PullImage, &status)),
        }
    }

    async fn remove_image(&self, id: &str) -> Result<(), CriError> {
        let request = wire::RemoveImageRequest { image: Some(spec(id, HashMap::new())) };
        let call = async { self.image().remove_image(request).await };
        match self.call(Operation::RemoveImage, CallSubject::Image(id.to_owned()), call).await {
            Ok(_) => Ok(()),
            Err(error) if error.is_not_found() => Ok(()),
            Err(error) => Err(error),
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
        Ok(self.runtime_filesystems().await?.images)
    }

    async fn runtime_filesystems(&self) -> Result<RuntimeFilesystems, CriError> {
        let call = async { self.image().image_fs_info(wire::ImageFsInfoRequest {}).await };
        let answer = self.call(Operation::ImageFsInfo, CallSubject::Node, call).await?;
        Ok(convert::runtime_filesystems(answer))
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::time::Duration;

    use super::*;
    use hostlet_telemetry::Metrics;

    #[test]
    fn a_pull_has_the_annotations_of_its_pod() {
        let annotations: HashMap<_, _> = [("a/b".to_owned(), "c".to_owned())].into();
        let sandbox =
            wire::PodSandboxConfig { annotations: annotations.clone(), ..wire::PodSandboxConfig::default() };
        assert_eq!(pull_request("r.io/x:1", None, Some(sandbox)).image.unwrap().annotations, annotations);
        assert!(pull_request("r.io/x:1", None, None).image.unwrap().annotations.is_empty());
    }

    #[tokio::test]
    async fn pulls_are_counted_like_other_calls() {
        let client = CriClient::new(Path::new("/nonexistent/cri.sock"), Duration::from_secs(5));
        let metrics = Metrics::default();
        client.calls().register(&metrics);
        client.pull_image("r.io/x:1", None, None).await.unwrap_err();
        let text = metrics.encode();
        for line in [
            "kubelet_runtime_operations_total{operation_type=\"pull_image\"} 1",
            "kubelet_runtime_operations_errors_total{operation_type=\"pull_image\"} 1",
            "kubelet_runtime_operations_duration_seconds_count{operation_type=\"pull_image\"} 1",
        ] {
            assert!(text.contains(&format!("\n{line}\n")), "{line}: {text}");
        }
    }
}
