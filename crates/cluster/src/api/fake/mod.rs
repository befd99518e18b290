//! An in-memory API server that behaves like a real one as far as a kubelet can observe: UIDs, versions, watches, statuses,
//! graceful deletion and tokens, with scripted faults. For tests; never in the daemon.

mod certificates;
mod discovery;
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
pub use server::{FakeApi, Recorded, ResponseBody};
#[cfg(test)]
pub(crate) use strategic::apply_strategic;
