//! `images`: the largest images the runtime has, so that the scheduler can prefer nodes that have a pod's image.

use std::cmp::Reverse;

use k8s_openapi::api::core::v1::{ContainerImage, NodeStatus};

use crate::cri::ImageInfo;

/// How many names of an image are told; upstream's constant.
const MOST_NAMES: usize = 5;

/// At most `most` images, if that is given.
pub(super) fn set(status: &mut NodeStatus, images: &[ImageInfo], most: Option<usize>) {
    let mut sorted: Vec<&ImageInfo> = images.iter().collect();
    // The runtime's order may change from answer to answer, and a change would be sent.
    sorted.sort_by(|a, b| (Reverse(a.size), &b.id).cmp(&(Reverse(b.size), &a.id)));
    sorted.truncate(most.unwrap_or(usize::MAX));
    let told: Vec<ContainerImage> = sorted.into_iter().map(told).collect();
    status.images = (!told.is_empty()).then_some(told);
}

fn told(image: &ImageInfo) -> ContainerImage {
    let names = image.digests.iter().chain(&image.tags).filter(|name| !name.contains("<none>"));
    let names: Vec<String> = names.take(MOST_NAMES).cloned().collect();
    ContainerImage { names: (!names.is_empty()).then_some(names), size_bytes: i64::try_from(image.size).ok() }
}
