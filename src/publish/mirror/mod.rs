//! Mirror pods: the API objects that show this node's static pods, so that `kubectl` and the scheduler see them. A mirror
//! is a projection, never an input: whatever is done to it, the static pod runs on.

mod plan;
mod task;
#[cfg(test)]
mod tests;

pub use task::{MirrorSources, Mirrors};
