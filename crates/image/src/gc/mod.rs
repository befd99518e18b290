//! Garbage collection of images: removes images that nothing uses, when their filesystem is nearly full or when they were unused for
//! long, and when an eviction or a user asks for it. Knows no pod more than by the images it names, and never removes an image that a
//! container of the runtime uses.

mod collector;
mod disk;
mod error;
mod handle;
mod metrics;
mod mounts;
mod plan;
mod records;
mod report;
mod request;
mod task;
mod users;

pub use collector::{ImageGcDeps, PodImagesSource};
pub use disk::{ImageDisk, MeasureFilesystem};
pub use error::GcError;
pub use handle::ImageGc;
pub use plan::{Fate, Keep};
pub use request::{Freed, RemovalFailure, RemovedImage, UnusedImage, UnusedImages};
pub use task::ImageGcTask;
pub use users::PodImages;

#[cfg(test)]
mod tests;
