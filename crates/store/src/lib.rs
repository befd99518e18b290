//! The local store: state that must survive a restart and cannot be observed again, in one file that only root may read. Holds
//! nothing that can be read from the runtime or the manifests, and knows nothing of the meaning of its rows.
//!
//! The daemon works on the rows in memory ([`Store`]), which are authoritative. The file is a copy that the [`StoreWriter`]
//! updates shortly after. So only a caller that needs durability waits for the disk ([`Store::written`]), and a damaged file or
//! a full disk costs nothing while the daemon runs: the file is rewritten from memory.

mod aside;
mod contents;
#[cfg(test)]
mod crash_tests;
mod error;
mod file;
mod metrics;
mod pace;
mod place;
mod rows;
mod sealed;
mod table;
#[cfg(test)]
mod tests;
mod writer;

pub use rows::Store;
pub use sealed::{KEY_CREDENTIAL, KeyError, KeyPlace, OpenedRow, SealedRows, UnreadableRow};
pub use table::Table;
pub use writer::{StoreWriter, UnreadableStore};

#[cfg(test)]
hostlet_host::work_in_place!();
