//! Sources of pods: the manifests of static pods, and the API server. On a host without an API server, manifests also define the
//! objects that their pods refer to.

pub mod api;
mod decode;
mod file_objects;
mod files;
#[cfg(test)]
mod hostile_tests;
mod identity;
mod manifest;
mod pace;
mod reader;
#[cfg(test)]
mod reader_tests;
mod state;
mod task;
#[cfg(test)]
mod task_tests;
#[cfg(test)]
pub(crate) mod testing;

pub use decode::{DecodeError, Mistakes};
pub use manifest::{FileAccess, Manifest, ManifestContext, ManifestError, read_manifest};
pub use state::{ManifestProblem, SourceState, StaticPod};
pub use task::{SourceConfig, run};
