//! The machine as it is divided among pods: CPUs and where they are, NUMA nodes and their memory. Pure values; who reads them from the
//! kernel is another crate.

mod cpu_set;
mod numa_mask;
mod places;
mod topology;

pub use cpu_set::CpuSet;
pub use numa_mask::NumaMask;
pub(crate) use places::Level;
pub use topology::{CpuPlace, Machine, NumaNode};
