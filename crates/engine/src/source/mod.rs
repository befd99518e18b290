//! The source of static pods: manifests, in files and at a URL. On a host without an API server, files also define the objects
//! that pods refer to.

mod answer;
mod context;
mod csi_driver;
mod decode;
mod file_objects;
mod files;
#[cfg(test)]
mod hostile_tests;
mod identity;
mod manifest;
mod merge;
mod pace;
mod reader;
#[cfg(test)]
mod reader_tests;
mod state;
mod task;
#[cfg(test)]
mod task_tests;
#[cfg(test)]
pub mod testing;
mod url;

pub use answer::{AnswerContext, read_answer};
pub use context::{FileAccess, ManifestContext};
pub use decode::{DecodeError, Mistakes};
pub use manifest::{Manifest, ManifestError, read_manifest};
pub use state::{SourceState, StaticPod};
pub use task::{SourceConfig, UrlSource, run};
