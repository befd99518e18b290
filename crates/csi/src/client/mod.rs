//! The client of a driver's node service: gRPC on its Unix socket, in CSI 1.x.

mod hidden;
mod metrics;
mod node;
#[cfg(test)]
mod node_tests;
mod wire;

pub(crate) use metrics::CallMetrics;
pub(crate) use node::GrpcNodeService;
