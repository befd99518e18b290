//! The pods of the year, by what they do. Values only.

use std::sync::Arc;

use hostlet_base::CONFIG_SOURCE_ANNOTATION;
use hostlet_pod::{ApiPod, testing};
use k8s_openapi::api::core::v1::{ConfigMapVolumeSource, EmptyDirVolumeSource, Pod, Volume, VolumeMount};

/// The name of a pod's volume on the disk.
pub(super) const SCRATCH: &str = "scratch";

/// The name of the ConfigMap of all pods, and of their volume with it.
pub(super) const CONFIG: &str = "config";

/// What a pod does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Serves for days, until its next version.
    Web,
    /// Runs for some seconds, once.
    Job,
    /// Crashes for hours.
    Crash,
    /// Fills its volume until it is evicted.
    Hog,
}

impl Kind {
    /// Its name, which its container has, too: what that does depends on it.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Web => "web",
            Self::Job => "job",
            Self::Crash => "crash",
            Self::Hog => "hog",
        }
    }

    /// A pod of the API server that runs this image.
    pub(super) fn pod(self, uid: &str, image: &str) -> Arc<ApiPod> {
        let policy = match self {
            Self::Web | Self::Crash | Self::Hog => "Always",
            Self::Job => "Never",
        };
        let mut pod = testing::pod(uid, uid, policy, &[self.name()]);
        pod.metadata.annotations = Some([(CONFIG_SOURCE_ANNOTATION.to_owned(), "api".to_owned())].into());
        if let Some(spec) = &mut pod.spec {
            spec.volumes = Some(vec![scratch(), config()]);
            for container in &mut spec.containers {
                container.image = Some(image.to_owned());
                let mount = |name: &str| VolumeMount {
                    name: name.to_owned(),
                    mount_path: format!("/{name}"),
                    ..VolumeMount::default()
                };
                container.volume_mounts = Some([SCRATCH, CONFIG].map(mount).into());
            }
        }
        of_api(pod)
    }
}

fn of_api(pod: Pod) -> Arc<ApiPod> {
    Arc::new(ApiPod {
        pod: Arc::new(pod),
        status: Arc::default(),
        version: "1".to_owned(),
        unsupported: Vec::new(),
    })
}

fn scratch() -> Volume {
    Volume { name: SCRATCH.to_owned(), empty_dir: Some(EmptyDirVolumeSource::default()), ..Volume::default() }
}

fn config() -> Volume {
    let source = ConfigMapVolumeSource { name: CONFIG.to_owned(), ..ConfigMapVolumeSource::default() };
    Volume { name: CONFIG.to_owned(), config_map: Some(source), ..Volume::default() }
}

/// How large an image is, bytes: from 300 MiB to 1.5 GiB, by its name.
pub(super) fn image_size(name: &str) -> u64 {
    let hash = name.bytes().fold(7_u64, |hash, byte| hash.wrapping_mul(31).wrapping_add(u64::from(byte)));
    (300 + hash % 1200) << 20
}
