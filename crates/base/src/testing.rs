//! Test fixtures for all crates.

#![allow(
    clippy::unwrap_used,
    reason = "what fails in a test is to fail the test; clippy knows only cfg(test)"
)]

use jiff::Timestamp;

use super::{Quantity, ResourceList};

/// The time this many seconds after the epoch.
pub fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

/// A list of resource names with their amounts, each as Kubernetes writes a quantity.
pub fn resource_list<const N: usize>(amounts: [(&str, &str); N]) -> ResourceList {
    amounts.into_iter().map(|(name, amount)| (name, Quantity::parse(amount).unwrap())).collect()
}
