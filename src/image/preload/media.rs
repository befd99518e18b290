//! The JSON documents of images, as far as they matter here: OCI image-spec 1.1 and what `docker save` writes.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::types::one_line;

/// The media type of the manifest that is made of what `docker save` wrote.
pub(super) const DOCKER_MANIFEST: &str = "application/vnd.docker.distribution.manifest.v2+json";
pub(super) const DOCKER_CONFIG: &str = "application/vnd.docker.container.image.v1+json";
pub(super) const DOCKER_LAYER: &str = "application/vnd.docker.image.rootfs.diff.tar";
pub(super) const DOCKER_LAYER_GZIP: &str = "application/vnd.docker.image.rootfs.diff.tar.gzip";

/// What a descriptor points to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    /// Manifests to choose from.
    Index,
    /// An image for one platform.
    Manifest,
    /// Anything else.
    Other,
}

impl Shape {
    pub(super) fn of(media_type: &str) -> Self {
        match media_type {
            "application/vnd.oci.image.index.v1+json"
            | "application/vnd.docker.distribution.manifest.list.v2+json" => Self::Index,
            "application/vnd.oci.image.manifest.v1+json" | DOCKER_MANIFEST => Self::Manifest,
            _ => Self::Other,
        }
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Descriptor {
    #[serde(default)]
    pub(super) media_type: String,
    pub(super) digest: String,
    pub(super) size: u64,
    #[serde(default, skip_serializing)]
    pub(super) platform: Option<Platform>,
    #[serde(default, skip_serializing)]
    pub(super) annotations: Option<BTreeMap<String, String>>,
}

/// For whom an image is: of an index's entry, and of an image's configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub(super) struct Platform {
    #[serde(default)]
    os: String,
    #[serde(default)]
    architecture: String,
}

impl fmt::Display for Platform {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let os = if self.os.is_empty() { "linux" } else { &self.os };
        let architecture = if self.architecture.is_empty() { "any" } else { &self.architecture };
        f.write_str(&one_line(&format!("{os}/{architecture}"), 64))
    }
}

impl Platform {
    /// Whether a Linux host of `architecture` can run it. Variants are left to the runtime, which picks the best.
    pub(super) fn fits(&self, architecture: &str) -> bool {
        let own = match self.architecture.as_str() {
            "x86_64" | "x86-64" => "amd64",
            "aarch64" => "arm64",
            other => other,
        };
        (self.os.is_empty() || self.os == "linux") && (own.is_empty() || own == architecture)
    }
}

#[derive(Debug, Deserialize)]
pub(super) struct Index {
    #[serde(default)]
    pub(super) manifests: Vec<Descriptor>,
}

/// An image's manifest. Fields stand in the order in which containerd writes them, so that digests are the same.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Manifest {
    pub(super) schema_version: u32,
    #[serde(default)]
    pub(super) media_type: String,
    pub(super) config: Descriptor,
    #[serde(default)]
    pub(super) layers: Vec<Descriptor>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Layout {
    pub(super) image_layout_version: String,
}

/// An entry of `manifest.json`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct DockerImage {
    pub(super) config: String,
    pub(super) repo_tags: Option<Vec<String>>,
    pub(super) layers: Option<Vec<String>>,
}
