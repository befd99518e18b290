//! Pods: where they come from, the worker that owns each, and what it does to containers.

pub mod defaults;
pub mod source;
pub mod validation;
