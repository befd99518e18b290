//! The difference of two API objects as a strategic merge patch, the kind of patch the kubelet sends for statuses. Sends none.

mod diff;
#[cfg(test)]
mod diff_tests;
mod strategies;

pub use diff::{Kind, strategic};
