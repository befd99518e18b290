//! Kills leftover shims: containerd or hostlet was killed in the middle of a start, and no sandbox or container belongs to
//! them anymore. Nothing else would ever stop them. Only shims of the CRI's namespace and of our containerd count.

mod sightings;
mod task;

pub(crate) use task::LeftoverShims;
