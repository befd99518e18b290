//! `images`: the runtime's largest images, so that the scheduler can prefer nodes that have a pod's image.

use std::cmp::Reverse;

use k8s_openapi::api::core::v1::{ContainerImage, NodeStatus};

use hostlet_runtime::cri::ImageInfo;

/// How many names of an image are reported; upstream's constant.
const MAX_NAMES: usize = 5;

/// Reports at most `max` images, or all of them.
pub(super) fn set(status: &mut NodeStatus, images: &[ImageInfo], max: Option<usize>) {
    let mut sorted: Vec<&ImageInfo> = images.iter().collect();
    // The runtime's order may vary between responses, and would count as a change.
    sorted.sort_by(|a, b| (Reverse(a.size), &b.id).cmp(&(Reverse(b.size), &a.id)));
    sorted.truncate(max.unwrap_or(usize::MAX));
    let images: Vec<ContainerImage> = sorted.into_iter().map(container_image).collect();
    status.images = (!images.is_empty()).then_some(images);
}

fn container_image(image: &ImageInfo) -> ContainerImage {
    let names = image.digests.iter().chain(&image.tags).filter(|name| !name.contains("<none>"));
    let names: Vec<String> = names.take(MAX_NAMES).cloned().collect();
    ContainerImage { names: (!names.is_empty()).then_some(names), size_bytes: i64::try_from(image.size).ok() }
}
