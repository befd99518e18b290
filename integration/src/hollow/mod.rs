//! Hollow nodes, like kubemark's: the engine and the API server's clients of hostlet on a fake runtime, many in one process. They load a
//! real API server as real nodes do; their pods are entries in memory. For benches; needs root.

mod cluster;
mod engine;
mod fleet;
mod node;

pub(crate) use fleet::write_kubeconfigs;
pub use fleet::{Fleet, IMAGE, name};
