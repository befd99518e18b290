//! Mirror pods: API objects that represent this node's static pods, so that `kubectl` and the scheduler see them. A mirror pod
//! is output only: whatever happens to it, the static pod keeps running.

mod plan;
mod task;
#[cfg(test)]
mod tests;

pub use task::{MirrorDeps, Mirrors};
