//! Registration of plugins with a kubelet, written after `k8s.io/kubelet` 0.37, `pkg/apis/pluginregistration/v1/api.proto`. The
//! plugin is the server.

/// Name of the service.
pub const SERVICE: &str = "pluginregistration.Registration";
/// Full method name of `Registration.GetInfo`.
pub const GET_INFO: &str = "/pluginregistration.Registration/GetInfo";
/// Full method name of `Registration.NotifyRegistrationStatus`.
pub const NOTIFY_REGISTRATION_STATUS: &str = "/pluginregistration.Registration/NotifyRegistrationStatus";

/// Asks a plugin who it is.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct InfoRequest {}

/// Who a plugin is.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct PluginInfo {
    /// `CSIPlugin`, `DevicePlugin` or `DRAPlugin`.
    #[prost(string, tag = "1")]
    pub r#type: String,
    /// Its name, unique among plugins of its type.
    #[prost(string, tag = "2")]
    pub name: String,
    /// The socket of its service; empty if that is the registration socket.
    #[prost(string, tag = "3")]
    pub endpoint: String,
    /// The versions of its service, or the names of its services.
    #[prost(string, repeated, tag = "4")]
    pub supported_versions: Vec<String>,
}

/// Reports to a plugin whether it was registered.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct RegistrationStatus {
    /// Whether it was.
    #[prost(bool, tag = "1")]
    pub plugin_registered: bool,
    /// Why not; empty if it was.
    #[prost(string, tag = "2")]
    pub error: String,
}

/// The plugin has received the report.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct RegistrationStatusResponse {}
