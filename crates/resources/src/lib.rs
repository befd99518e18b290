//! What the node grants its pods and their containers: the seam between admission and those that have something to allocate, and the
//! allocator of the node's own resources. Pure: admission has the allocations, and an allocator answers from what it is given.

mod allocation;
mod allocator;
mod claimed;
mod container_grant;
mod node_resources;
mod shortage;

pub use allocation::{AllocatedPod, Allocation};
pub use allocator::{Admission, Allocator};
pub use container_grant::{ContainerGrant, GrantedDevice, GrantedMount};
pub use node_resources::NodeResources;
pub use shortage::Shortage;
