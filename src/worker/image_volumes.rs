//! The images of a pod's image volumes (KEP-4639). They are pulled before any container of a step starts, with the pod's
//! credentials; a container that mounts one that is not available does not start. The runtime mounts them.

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Container, ImageVolumeSource, VolumeMount};

use super::Retry;
use super::context::WorkerContext;
use super::pull_secrets::PodPullSecrets;
use super::reporter::Reporter;
use crate::cri::wire::{ImageSpec, PodSandboxConfig};
use crate::cri::{CriError, Version};
use crate::image::{ImageError, ImageRequest, PullPolicy};
use crate::pod::AdmittedPod;
use crate::status::Activity;
use crate::types::PodEvent;

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
            Self::Runtime(_) => "CreateContainerError",
            Self::Images { .. } | Self::SubPaths { .. } => "CreateContainerConfigError",
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

/// The images of a pod's image volumes, as far as they are available.
#[derive(Debug, Default)]
pub(super) struct ImageVolumes {
    images: BTreeMap<String, Result<ImageSpec, ImageVolumeError>>,
    /// Why parts of images cannot be mounted, if so.
    whole_only: Option<String>,
}

impl ImageVolumes {
    /// Ensures the images of all image volumes of the pod, in order. `sandbox` is the sandbox that its containers run in.
    pub(super) async fn ensure(
        context: &WorkerContext,
        pod: &AdmittedPod,
        sandbox: &PodSandboxConfig,
        secrets: &PodPullSecrets,
        reporter: &mut Reporter,
    ) -> Self {
        let volumes: Vec<_> = pod.image_volumes().collect();
        if volumes.is_empty() {
            return Self::default();
        }
        // Asked every time, because a runtime may be updated under a running daemon.
        let version = context.runtime.service.version().await;
        let mut ensured = Self { images: BTreeMap::new(), whole_only: None };
        for (volume, source) in volumes {
            let image = match version.as_ref().map(Version::mounts_no_images) {
                Err(error) => Err(error.clone().into()),
                Ok(Some(why)) => Err(ImageVolumeError::Images { volume: volume.to_owned(), why }),
                Ok(None) => {
                    let pull = VolumePull { context, pod, sandbox, secrets, volume, source };
                    pull.ensure(reporter).await.map_err(Into::into)
                }
            };
            ensured.images.insert(volume.to_owned(), image);
        }
        ensured.whole_only = version.ok().and_then(|version| version.mounts_only_whole_images());
        ensured
    }

    /// The images that a container mounts, by volume, and the problems with others, in the order of its mounts.
    pub(super) fn of(&self, container: &Container) -> (BTreeMap<String, ImageSpec>, Vec<ImageVolumeError>) {
        let (mut images, mut problems) = (BTreeMap::new(), Vec::new());
        for mount in container.volume_mounts.iter().flatten() {
            let volume = &mount.name;
            match (self.images.get(volume), &self.whole_only) {
                (Some(Err(problem)), _) => problems.push(problem.clone()),
                (Some(Ok(_)), Some(why)) if has_sub_path(mount) => {
                    problems.push(ImageVolumeError::SubPaths { volume: volume.clone(), why: why.clone() });
                }
                (Some(Ok(image)), _) => drop(images.insert(volume.clone(), image.clone())),
                (None, _) => {}
            }
        }
        (images, problems)
    }
}

fn has_sub_path(mount: &VolumeMount) -> bool {
    [&mount.sub_path, &mount.sub_path_expr].into_iter().flatten().any(|path| !path.is_empty())
}

/// The pull for one volume.
struct VolumePull<'a> {
    context: &'a WorkerContext,
    pod: &'a AdmittedPod,
    sandbox: &'a PodSandboxConfig,
    secrets: &'a PodPullSecrets,
    volume: &'a str,
    source: &'a ImageVolumeSource,
}

impl VolumePull<'_> {
    /// Its events are about the pod, as upstream: no container waits for it alone.
    async fn ensure(&self, reporter: &mut Reporter) -> Result<ImageSpec, ImageError> {
        let image = self.source.reference.as_deref().unwrap_or_default();
        // Defaulting has set the policy; without one, a present image is not pulled.
        let policy = self.source.pull_policy.as_deref().and_then(PullPolicy::from_api);
        let request = ImageRequest {
            pod: &self.pod.reference,
            image,
            policy: policy.unwrap_or(PullPolicy::IfNotPresent),
            sandbox: self.sandbox.clone(),
            secrets: self.secrets,
        };
        let mut report = |event: PodEvent| {
            if event.reason == "Pulling" {
                let (volume, image) = (self.volume.to_owned(), image.to_owned());
                reporter.begin(Activity::PullingVolume { volume, image });
            }
            reporter.event(None, event);
        };
        let ensured = self.context.runtime.images.ensure(request, &mut report).await?;
        Ok(ImageSpec {
            image: ensured.image.id,
            user_specified_image: image.to_owned(),
            annotations: self.pod.metadata.annotations.clone().unwrap_or_default().into_iter().collect(),
            ..ImageSpec::default()
        })
    }
}
