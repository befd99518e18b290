//! The logs of containers in operation: which instance's log a reader gets and when following it ends; rotation by size. Reading
//! text is `observe::log`'s; only the runtime writes logs.

mod instance;
mod rotation;
mod source;
#[cfg(any(test, feature = "fakes"))]
#[doc(hidden)]
pub mod testing;

pub use instance::{NoInstance, bare_id, find_instance};
pub(crate) use rotation::{LogRotation, LogRotationDeps};
pub use source::{ContainerLogs, until_cancelled};
