//! Copies of the ConfigMaps, Secrets, tokens and trust bundles that admitted pods use, encrypted on this host's disk: pods start with them after a
//! reboot while the API server is away. A copy is made when the API server has sent something new, and removed with its last user.
//! Never in the clear on the disk, and never logged. Copies are no second source: what the API server says always replaces them.

mod copies;
mod copy;
mod objects;
mod row;
mod task;
#[cfg(test)]
mod task_tests;

pub use copy::CopySubject;
pub use objects::{OfflineObjects, OfflineUsers, ServedCopy};
pub use task::OfflineObjectsTask;
