//! Registration: creates the Node, or adopts an existing one.

mod adopt;
mod attempt;
mod initial;
#[cfg(test)]
mod tests;

pub(super) use attempt::{Registered, attempt};
pub(super) use initial::{initial, labels};
