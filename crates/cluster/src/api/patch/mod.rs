//! Computes strategic merge patches, which the kubelet sends for statuses. Sends none.

mod diff;
#[cfg(test)]
mod diff_tests;
mod strategies;

pub(crate) use diff::{Kind, strategic};
