//! Registration: the Node as it is made, and what an existing one needs to be ours.

mod adopt;
mod attempt;
mod initial;
#[cfg(test)]
mod tests;

pub(super) use attempt::{Registered, attempt};
pub(super) use initial::{initial, labels};
