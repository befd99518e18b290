//! Which claims pods of this node use, and how far their drivers have prepared them. Pure: no I/O, no clock.

mod checkpoint;
#[cfg(test)]
mod checkpoint_tests;
mod claim;
mod state;

pub(crate) use checkpoint::{CheckpointError, decode, encode};
pub use claim::Operation;
pub(crate) use claim::{AllocatedClaim, Claim, ClaimKey, Goal, PartState};
pub use state::ForgetError;
pub(crate) use state::{AttachError, Batches, Ledger};
