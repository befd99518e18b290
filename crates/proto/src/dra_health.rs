//! How a DRA driver reports the health of its devices, written after `k8s.io/kubelet` 0.37, `pkg/apis/dra-health/v1/api.proto`.
//! `v1alpha1` is the same on the wire.

/// Full method name of `DRAResourceHealth.NodeWatchResources`: a server stream; each response has all devices that are monitored.
pub const NODE_WATCH_RESOURCES_V1: &str = "/v1.DRAResourceHealth/NodeWatchResources";
/// The same of `v1alpha1`.
pub const NODE_WATCH_RESOURCES_V1ALPHA1: &str = "/v1alpha1.DRAResourceHealth/NodeWatchResources";

/// Asks for the health of devices.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct NodeWatchResourcesRequest {}

/// The health of devices.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct NodeWatchResourcesResponse {
    /// All devices that the driver monitors.
    #[prost(message, repeated, tag = "1")]
    pub devices: Vec<DeviceHealth>,
}

/// The health of a device.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct DeviceHealth {
    /// Which device.
    #[prost(message, optional, tag = "1")]
    pub device: Option<DeviceIdentifier>,
    /// How it is.
    #[prost(enumeration = "HealthStatus", tag = "2")]
    pub health: i32,
    /// When the driver found that, in seconds since 1970.
    #[prost(int64, tag = "3")]
    pub last_updated_time: i64,
    /// For how many seconds that holds; the default if not positive.
    #[prost(int64, tag = "4")]
    pub health_check_timeout_seconds: i64,
    /// What people should know.
    #[prost(string, tag = "5")]
    pub message: String,
}

/// Names a device of the driver.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct DeviceIdentifier {
    /// Its pool.
    #[prost(string, tag = "1")]
    pub pool_name: String,
    /// Its name in the pool.
    #[prost(string, tag = "2")]
    pub device_name: String,
}

/// How a device is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, prost::Enumeration)]
#[repr(i32)]
pub enum HealthStatus {
    /// It cannot be determined.
    Unknown = 0,
    /// It works.
    Healthy = 1,
    /// It has a problem.
    Unhealthy = 2,
}
