//! The local store: what a new daemon must know and cannot observe again, in one file that only root may read. Holds nothing
//! that a look at the runtime or at the manifests would tell, and knows nothing of what its rows mean.
//!
//! The daemon works on the rows in memory ([`Store`]); they are the truth. The file is a copy of them that the [`StoreWriter`]
//! brings up to date a moment later. So nobody waits for the disk but who must know that a row outlives a kill
//! ([`Store::written`]), and whatever happens to the file (damage, a full disk) costs nothing while the daemon lives: it is
//! written anew from memory.

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
mod table;
#[cfg(test)]
mod tests;
mod writer;

pub use rows::Store;
pub use table::Table;
pub use writer::StoreWriter;
