//! CPUs, memory and devices of a pod together, on the NUMA nodes that suit all of them. Pure.

mod admit;
mod provider;
mod resize;

pub use admit::{Managers, StaticManagers};
pub use provider::{NoDevices, Provider};
pub use resize::infeasible_resize;
