//! Evicts pods that use more local storage than they may, as upstream's eviction manager does. Requests kills; terminates no pod
//! itself, and measures nothing.

mod limits;
mod metrics;
mod plan;
#[cfg(test)]
mod plan_tests;
mod task;

pub(crate) use task::{Eviction, EvictionDeps};
