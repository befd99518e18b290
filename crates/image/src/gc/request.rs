//! What the task is asked, and what it answers.

use hostlet_base::settings::ImageGcPolicy;
use jiff::Timestamp;
use tokio::sync::oneshot;

use super::disk::ImageDisk;
use super::error::GcError;
use super::plan::{Candidate, Fate};

/// A request to the task.
pub(super) enum Request {
    /// Remove every image that may be removed.
    DeleteUnused(oneshot::Sender<Result<Freed, GcError>>),
    /// Say which images are unused.
    Unused(oneshot::Sender<Result<UnusedImages, GcError>>),
}

/// An image that the collection removed from the runtime.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemovedImage {
    /// The runtime's ID.
    pub id: String,
    /// Its names with a tag or a digest.
    pub names: Vec<String>,
    /// Its size as the runtime reported it, bytes.
    pub size: u64,
}

/// An image that could not be removed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemovalFailure {
    /// A name of it, or else its ID.
    pub image: String,
    /// The runtime's error.
    pub error: String,
}

/// What a removal of all unused images freed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Freed {
    /// The removed images, in this order.
    pub images: Vec<RemovedImage>,
    /// Those that the runtime failed to remove.
    pub failures: Vec<RemovalFailure>,
    /// Which other images stay and why, in a sentence without its end; `None` if there are none.
    pub stays: Option<String>,
}

impl Freed {
    /// The sizes of the removed images together, bytes. Layers that other images have, too, count although they stay.
    pub fn bytes(&self) -> u64 {
        self.images.iter().fold(0, |sum, image| sum.saturating_add(image.size))
    }

    /// Those of these unused images that are not removed.
    pub(super) fn left_of(&self, unused: Vec<Candidate>) -> Vec<Candidate> {
        unused.into_iter().filter(|image| !self.images.iter().any(|gone| gone.id == image.id)).collect()
    }
}

/// An image that nothing uses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnusedImage {
    /// The runtime's ID.
    pub id: String,
    /// Its names with a tag or a digest.
    pub names: Vec<String>,
    /// Its size as the runtime reports it, bytes.
    pub size: u64,
    /// When this node first saw it.
    pub first_detected: Timestamp,
    /// When it was last seen in use; `None` if never.
    pub last_used: Option<Timestamp>,
    /// When it goes, or why not.
    pub fate: Fate,
}

/// The images that nothing uses, and what would make them go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnusedImages {
    /// In the order in which they go.
    pub images: Vec<UnusedImage>,
    /// The filesystem of the images.
    pub disk: ImageDisk,
    /// When images go.
    pub policy: ImageGcPolicy,
}
