//! Sources of pods: the manifests of static pods, and the API server.

pub mod api;
mod decode;
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
pub use manifest::{ManifestError, read_manifest};
pub use state::{ManifestProblem, SourceState, StaticPod};
pub use task::{SourceConfig, run};
