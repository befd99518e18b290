//! Shims that containerd forgot: it or hostlet was killed in the middle of a start, and no sandbox and no container stands behind
//! them any more. Nobody else ever ends them. Only those of the CRI's namespace and of our containerd are looked at.

mod sightings;
mod task;

pub use task::LeftoverShims;
