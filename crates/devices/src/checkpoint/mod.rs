//! The record of registered devices and allocations: upstream's file, so that a stock kubelet can go on with it, and hostlet with that
//! of a stock kubelet. Decides nothing.

mod checksum;
mod data;
mod file;
mod format;

pub use file::has_checkpoint;
pub(crate) use file::{CheckpointFile, Damage, Loaded, WriteError};
pub(crate) use format::encode;
#[cfg(test)]
pub(crate) use format::read;
pub use format::recode;
