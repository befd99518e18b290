//! The client of a driver's services: gRPC on its Unix socket, in the newest version that both sides know.

mod grpc;
#[cfg(test)]
mod grpc_tests;
mod health;
mod metrics;
mod versions;
mod wire;

pub(crate) use grpc::GrpcDriver;
#[cfg(test)]
pub(crate) use health::HealthStream;
pub(crate) use health::{GrpcHealth, HealthService, WatchError};
pub(crate) use metrics::CallMetrics;
pub(crate) use versions::{HealthVersion, PluginVersion};
