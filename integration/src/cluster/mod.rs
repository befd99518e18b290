//! A real cluster: a control plane in its own network, hosts as nodes, and tenants that isolate the tests that share it. Needs root;
//! leaves nothing behind.

mod agent;
mod control_plane;
mod csi_sidecar;
mod dra_driver;
mod dra_plugin;
mod e2e;
mod gateway;
mod metrics_server;
mod node;
mod record;
mod tenant;

pub use agent::{Agent, Joining};
pub use control_plane::Cluster;
pub use csi_sidecar::CsiSidecar;
pub use dra_driver::DraDriver;
pub use dra_plugin::DraPlugin;
pub(crate) use e2e::may_lower_oom_scores;
pub use e2e::{E2eImages, kubernetes_program};
pub use metrics_server::MetricsServer;
pub use node::Node;
pub use record::{Names, check, normalized};
pub use tenant::Tenant;
