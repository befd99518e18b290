//! JSON documents of images, limited to the fields used here: OCI image-spec 1.1 and the format of `docker save`.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use hostlet_base::one_line;

/// Media type of the manifest generated for the output of `docker save`.
pub(super) const DOCKER_MANIFEST: &str = "application/vnd.docker.distribution.manifest.v2+json";
pub(super) const DOCKER_CONFIG: &str = "application/vnd.docker.container.image.v1+json";
pub(super) const DOCKER_LAYER: &str = "application/vnd.docker.image.rootfs.diff.tar";
pub(super) const DOCKER_LAYER_GZIP: &str = "application/vnd.docker.image.rootfs.diff.tar.gzip";

/// The kind of a descriptor's target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    /// An index: manifests for several platforms.
    Index,
    /// A manifest: an image for one platform.
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

/// The platform in an index entry and in an image's configuration.
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
    /// Whether Linux on `architecture` can run it. The runtime picks the best variant.
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

/// An image's manifest. The fields are in containerd's order, so that the digests agree.
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
