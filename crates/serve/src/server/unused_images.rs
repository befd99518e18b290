//! Views of the images that nothing uses, and of their removal.

use hostlet_image::gc::{Fate, Freed, Keep, UnusedImage, UnusedImages};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// The images that nothing uses, and when they go.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct UnusedImagesView {
    /// The filesystem of the images.
    pub filesystem: ImageFilesystemView,
    /// From which use of it on images are removed, percent; with 100 only for their age, and on request.
    pub high_threshold_percent: u8,
    /// Down to which use, percent.
    pub low_threshold_percent: u8,
    /// The images, in the order in which they go.
    pub images: Vec<UnusedImageView>,
}

/// The filesystem of the images.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ImageFilesystemView {
    /// A path on it.
    pub path: String,
    /// Its size, bytes.
    pub capacity: u64,
    /// What can still be written, bytes.
    pub available: u64,
    /// How full it is, percent.
    pub used_percent: u64,
}

/// An image that nothing uses.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct UnusedImageView {
    /// The runtime's ID.
    pub id: String,
    /// Its names with a tag or a digest.
    pub names: Vec<String>,
    /// Its size, bytes.
    pub size: u64,
    /// When this node first saw it.
    pub first_detected: Timestamp,
    /// When it was last seen in use, if ever.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_used: Option<Timestamp>,
    /// Why it never goes; missing if it does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kept: Option<KeptView>,
    /// Until when it is too young to go; missing if it is not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub removable_from: Option<Timestamp>,
    /// When it goes however much space there is; missing if it does not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires: Option<Timestamp>,
}

/// Why an unused image never goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum KeptView {
    /// The runtime has pinned it.
    Pinned,
    /// Its archive is in `imagePreloadDir`.
    Archive,
}

/// What a removal of all unused images freed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PruneView {
    /// The removed images.
    pub removed: Vec<RemovedImageView>,
    /// Those that the runtime failed to remove.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failed: Vec<FailedRemovalView>,
    /// The sizes of the removed images together, bytes.
    pub freed: u64,
}

/// A removed image.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RemovedImageView {
    /// The runtime's ID.
    pub id: String,
    /// Its names with a tag or a digest.
    pub names: Vec<String>,
    /// Its size, bytes.
    pub size: u64,
}

/// An image that could not be removed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FailedRemovalView {
    /// A name of it, or its ID.
    pub image: String,
    /// The runtime's error.
    pub error: String,
}

impl From<UnusedImages> for UnusedImagesView {
    fn from(unused: UnusedImages) -> Self {
        let UnusedImages { images, disk, policy } = unused;
        Self {
            filesystem: ImageFilesystemView {
                path: disk.path.display().to_string(),
                capacity: disk.capacity,
                available: disk.available,
                used_percent: disk.used_percent(),
            },
            high_threshold_percent: policy.high_percent,
            low_threshold_percent: policy.low_percent,
            images: images.into_iter().map(UnusedImageView::from).collect(),
        }
    }
}

impl From<UnusedImage> for UnusedImageView {
    fn from(image: UnusedImage) -> Self {
        let (kept, removable_from, expires) = match image.fate {
            Fate::Kept(Keep::Pinned) => (Some(KeptView::Pinned), None, None),
            Fate::Kept(Keep::Archive) => (Some(KeptView::Archive), None, None),
            Fate::Removable { from, expires } => (None, from, expires),
        };
        let UnusedImage { id, names, size, first_detected, last_used, fate: _ } = image;
        Self { id, names, size, first_detected, last_used, kept, removable_from, expires }
    }
}

impl From<Freed> for PruneView {
    fn from(freed: Freed) -> Self {
        let bytes = freed.bytes();
        let removed = freed.images.into_iter().map(|image| RemovedImageView {
            id: image.id,
            names: image.names,
            size: image.size,
        });
        let failed = freed
            .failures
            .into_iter()
            .map(|failure| FailedRemovalView { image: failure.image, error: failure.error });
        Self { removed: removed.collect(), failed: failed.collect(), freed: bytes }
    }
}
