//! An API server in memory that behaves like the real one where a kubelet can tell: UIDs, versions, watches, statuses,
//! graceful deletion, tokens. Its faults are scripted. For tests; never in the daemon.

mod faults;
mod objects;
mod path;
mod serve;
mod server;
mod strategic;
#[cfg(test)]
mod tests;
mod validate;
mod watch;

pub use faults::{ApiFault, ApiRule};
pub use server::{AnswerBody, FakeApi, Recorded};
#[cfg(test)]
pub(crate) use strategic::apply_strategic;
