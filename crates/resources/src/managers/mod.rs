//! CPUs, memory and devices of a pod together, on the NUMA nodes that suit all of them. Pure.

mod resize;
mod state;
mod steps;

pub use resize::{InfeasibleResize, infeasible_resize};
pub use state::{Managers, StaticManagers};
pub use steps::GrantScope;
