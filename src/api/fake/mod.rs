//! An API server in memory that behaves like the real one where a kubelet can tell: UIDs, versions, watches, statuses,
//! graceful deletion, tokens. Its faults are scripted. For tests; never in the daemon.

mod faults;
mod objects;
mod path;
mod serve;
mod server;
#[cfg(test)]
mod tests;
mod watch;

pub use faults::{ApiFault, ApiRule};
pub use server::{AnswerBody, FakeApi, Recorded};
