//! Which images are in use, and by whom: by containers of the runtime, by pods that name them, and by the sandboxes to come. Pure.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;

use hostlet_base::{ContainerId, PodRef};
use hostlet_runtime::cri::ImageInfo;

use crate::names::qualified;

/// What a pod of this node needs of images, by its spec.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodImages {
    /// Whose spec it is.
    pub pod: PodRef,
    /// The images of its containers and of its image volumes as the spec names them; none once it has terminated.
    pub names: Vec<String>,
    /// Whether it has image volumes: only its containers show which images they have mounted.
    pub has_image_volumes: bool,
}

/// Somebody who uses an image.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum ImageUser {
    /// A pod, by its spec or by one of its containers.
    Pod(PodRef),
    /// A container that no kubelet created.
    Container(ContainerId),
    /// The sandboxes that the runtime makes.
    Sandboxes,
}

impl fmt::Display for ImageUser {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pod(pod) => write!(f, "pod {pod}"),
            Self::Container(id) => write!(f, "container {id}"),
            Self::Sandboxes => f.write_str("the sandboxes of pods"),
        }
    }
}

/// The users of images, by the runtime's ID of the image.
pub(super) type ImageUsers = BTreeMap<String, BTreeSet<ImageUser>>;

/// The IDs of images by everything that images are called.
pub(super) struct ImageIndex<'a> {
    ids: HashMap<&'a str, &'a str>,
}

impl<'a> ImageIndex<'a> {
    pub(super) fn new(images: &'a [ImageInfo]) -> Self {
        let names = images.iter().flat_map(|image| {
            let id = image.id.as_str();
            let names = image.tags.iter().chain(&image.digests).map(String::as_str);
            names.chain([id]).chain(id.strip_prefix("sha256:")).map(move |name| (name, id))
        });
        Self { ids: names.collect() }
    }

    /// The image that is meant by an ID, or by a name as a spec or the runtime writes it.
    pub(super) fn find(&self, reference: &str) -> Option<&'a str> {
        self.ids.get(reference).or_else(|| self.ids.get(qualified(reference).as_str())).copied()
    }

    /// Adds `user` to the users of the images that are meant by `references`.
    pub(super) fn note<'r>(
        &self,
        users: &mut ImageUsers,
        references: impl IntoIterator<Item = &'r str>,
        user: &ImageUser,
    ) {
        for id in references.into_iter().filter_map(|reference| self.find(reference)) {
            users.entry(id.to_owned()).or_default().insert(user.clone());
        }
    }
}

/// Whether a pod names the image with this ID and these names.
pub(super) fn is_named(pods: &[PodImages], id: &str, names: &[String]) -> bool {
    let mut named = pods.iter().flat_map(|pod| &pod.names);
    named.any(|image| image == id || names.contains(image) || names.contains(&qualified(image)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_is_found_by_whatever_it_is_called() {
        let image = |id: &str, tags: &[&str], digests: &[&str]| ImageInfo {
            id: id.to_owned(),
            tags: tags.iter().map(|name| (*name).to_owned()).collect(),
            digests: digests.iter().map(|name| (*name).to_owned()).collect(),
            ..ImageInfo::default()
        };
        let digest = format!("sha256:{}", "0".repeat(64));
        let by_digest = format!("docker.io/library/busybox@{digest}");
        let images = [
            image("sha256:aa", &["docker.io/library/busybox:1.36", "docker.io/library/busybox:latest"], &[]),
            image("sha256:bb", &[], &[&by_digest]),
        ];
        let index = ImageIndex::new(&images);
        for (reference, id) in [
            ("busybox", Some("sha256:aa")),
            ("busybox:1.36", Some("sha256:aa")),
            ("docker.io/library/busybox:1.36", Some("sha256:aa")),
            ("sha256:aa", Some("sha256:aa")),
            ("aa", Some("sha256:aa")),
            (&format!("busybox:1.36@{digest}"), Some("sha256:bb")),
            (&by_digest, Some("sha256:bb")),
            // As the settings of containerd may have it (rancher/rke2#1830).
            ("index.docker.io/library/busybox:1.36", Some("sha256:aa")),
            ("busybox:1.35", None),
            ("not a reference", None),
            ("", None),
        ] {
            assert_eq!(index.find(reference), id, "{reference}");
        }
    }
}
