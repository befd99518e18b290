//! Calls to device plugins. Never decides which devices are allocated, and never retries.

mod error;
mod grpc;
mod plugin;

pub(crate) use error::CallError;
pub(crate) use grpc::GrpcPlugin;
pub(crate) use plugin::{DevicePlugin, PluginOptions};
