//! A real cluster: a control plane in a network of its own, hosts that join it as nodes, and tenants that keep the tests
//! that share it apart. Needs root; leaves nothing behind.

mod agent;
mod control_plane;
mod gateway;
mod node;
mod record;
mod tenant;

pub use agent::Agent;
pub use control_plane::Cluster;
pub use node::Node;
pub use record::{Names, check, normalized};
pub use tenant::Tenant;
