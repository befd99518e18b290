//! The image volumes of a pod (KEP-4639) in one step: their images, as far as its containers have waited for them, and whether the
//! runtime, which mounts them, can. Pulls nothing.

use std::collections::BTreeMap;
use std::time::Duration;

use hostlet_base::reasons;
use hostlet_image::ImageError;
use hostlet_pod::AdmittedPod;
use hostlet_runtime::cri::wire::ImageSpec;
use hostlet_runtime::cri::{CriError, ImageInfo, Version};
use k8s_openapi::api::core::v1::{Container, VolumeMount};

use super::Retry;
use super::context::WorkerContext;

/// Why an image volume cannot be mounted. `Display` is the waiting message of the container.
#[derive(Clone, Debug, thiserror::Error)]
pub(super) enum ImageVolumeError {
    /// The image is not available.
    #[error(transparent)]
    Image(#[from] ImageError),
    /// The runtime did not say which version it is.
    #[error(transparent)]
    Runtime(#[from] CriError),
    /// The runtime does not mount images.
    #[error("volume {volume:?} is an image: {why}")]
    Images { volume: String, why: String },
    /// The runtime only mounts images as a whole.
    #[error("the subPath of volume {volume:?} is in an image: {why}")]
    SubPaths { volume: String, why: String },
}

impl ImageVolumeError {
    /// The waiting reason of a container that mounts it.
    pub(super) fn reason(&self) -> &'static str {
        match self {
            Self::Image(error) => error.reason(),
            Self::Runtime(_) => reasons::CREATE_CONTAINER_ERROR,
            Self::Images { .. } | Self::SubPaths { .. } => reasons::CREATE_CONTAINER_CONFIG_ERROR,
        }
    }

    /// What the event of a container that mounts it says: upstream's text for images.
    pub(super) fn event(&self) -> String {
        match self {
            Self::Image(error) => error.reason().to_owned(),
            Self::Runtime(_) | Self::Images { .. } | Self::SubPaths { .. } => self.to_string(),
        }
    }

    /// When to try again.
    pub(super) fn retry(&self) -> Retry {
        match self {
            Self::Image(error) => Retry::after_image(error),
            Self::Runtime(error) => Retry::after(error),
            Self::Images { .. } | Self::SubPaths { .. } => Retry::BackOff,
        }
    }

    /// The remaining back-off of its pull, if it backs off.
    pub(super) fn back_off(&self) -> Option<Duration> {
        match self {
            Self::Image(ImageError::BackOff { remaining, .. }) => Some(*remaining),
            Self::Image(_) | Self::Runtime(_) | Self::Images { .. } | Self::SubPaths { .. } => None,
        }
    }
}

/// The image volumes in one step.
#[derive(Default)]
pub(super) struct ImageVolumes {
    /// The version of the runtime; none if the step needs no image volume.
    version: Option<Result<Version, CriError>>,
    /// The images of those that a container has waited for.
    images: BTreeMap<String, Result<ImageInfo, ImageError>>,
}

impl ImageVolumes {
    /// The image volumes of `pod` in a step that needs images for `containers`.
    pub(super) async fn of(context: &WorkerContext, pod: &AdmittedPod, containers: &[&Container]) -> Self {
        if containers.is_empty() || pod.image_volumes().next().is_none() {
            return Self::default();
        }
        // Asked in each step, because a runtime may be updated under a running daemon.
        Self { version: Some(context.runtime.service.version().await), images: BTreeMap::new() }
    }

    /// Whether the runtime mounts images.
    pub(super) fn are_mounted(&self) -> bool {
        matches!(&self.version, Some(Ok(version)) if version.mounts_no_images().is_none())
    }

    /// Whether the image of this volume is still to be waited for.
    pub(super) fn lack(&self, volume: &str) -> bool {
        self.are_mounted() && !self.images.contains_key(volume)
    }

    /// The image of this volume is available, or not.
    pub(super) fn pulled(&mut self, volume: &str, image: Result<ImageInfo, ImageError>) {
        self.images.insert(volume.to_owned(), image);
    }

    /// The images that a container mounts, by volume, and the problems with others, in the order of its mounts.
    pub(super) fn mounted_by(
        &self,
        container: &Container,
        pod: &AdmittedPod,
    ) -> (BTreeMap<String, ImageSpec>, Vec<ImageVolumeError>) {
        let (mut images, mut problems) = (BTreeMap::new(), Vec::new());
        for mount in container.volume_mounts.iter().flatten() {
            let Some((volume, source)) = pod.image_volumes().find(|(name, _)| *name == mount.name) else {
                continue;
            };
            match self.mounted_at(mount) {
                Ok(None) => {}
                Ok(Some(image)) => {
                    let image = ImageSpec {
                        image: image.id.clone(),
                        user_specified_image: source.reference.clone().unwrap_or_default(),
                        annotations: pod
                            .metadata
                            .annotations
                            .clone()
                            .unwrap_or_default()
                            .into_iter()
                            .collect(),
                        ..ImageSpec::default()
                    };
                    images.insert(volume.to_owned(), image);
                }
                Err(problem) => problems.push(problem),
            }
        }
        (images, problems)
    }

    fn mounted_at(&self, mount: &VolumeMount) -> Result<Option<&ImageInfo>, ImageVolumeError> {
        let volume = || mount.name.clone();
        let Some(version) = &self.version else { return Ok(None) };
        let version = version.as_ref().map_err(CriError::clone)?;
        if let Some(why) = version.mounts_no_images() {
            return Err(ImageVolumeError::Images { volume: volume(), why });
        }
        let Some(image) = self.images.get(&mount.name) else { return Ok(None) };
        let image = image.as_ref().map_err(ImageError::clone)?;
        match version.mounts_only_whole_images() {
            Some(why) if has_sub_path(mount) => Err(ImageVolumeError::SubPaths { volume: volume(), why }),
            Some(_) | None => Ok(Some(image)),
        }
    }
}

fn has_sub_path(mount: &VolumeMount) -> bool {
    [&mount.sub_path, &mount.sub_path_expr].into_iter().flatten().any(|path| !path.is_empty())
}
