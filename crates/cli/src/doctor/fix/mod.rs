//! Fixes that get a fresh host ready, offline too: planned from the facts, performed one by one. Each is idempotent, and none
//! touches what a person configured.

mod network;
mod perform;
mod plan;

pub(crate) use perform::Fixer;
pub(crate) use plan::plan;
