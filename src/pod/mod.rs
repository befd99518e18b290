//! Pods: where they come from, the worker that owns each, and what it does to containers.
