//! Images without a registry: imports archives from a directory into containerd, at start-up and when a file appears. Never
//! removes an image, and never writes an archive's contents to a path on this host.

mod archive;
mod containerd;
mod digest;
mod directory;
mod error;
mod file;
mod import;
mod input;
mod media;
mod plan;
#[cfg(test)]
mod samples;
mod target;
mod task;
mod walk;

pub use containerd::Containerd;
pub(crate) use containerd::PRELOAD_REFERENCE;
pub use digest::Digest;
pub use directory::PreloadProblem;
pub use error::{ArchiveError, PlanError, StoreError};
pub use file::{ImportError, import_file};
pub use import::{BlobWriter, ImageStore, LeasedBlob};
pub use target::Target;
pub use task::{PreloadConfig, PreloadOutputs, run};
