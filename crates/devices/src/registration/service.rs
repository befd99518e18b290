//! The service `v1beta1.Registration` of the kubelet's socket: connects to who registers, and hands the connection over. Does not follow
//! devices.

use std::path::PathBuf;

use async_trait::async_trait;
use hostlet_base::one_line;
use hostlet_proto::device_plugin::registration_server::Registration;
use hostlet_proto::device_plugin::{Empty, RegisterRequest};
use tokio::sync::mpsc;
use tonic::{Request, Response, Status};

use super::names::{NameError, check_resource, check_versions, socket};
use crate::client::{CallError, GrpcPlugin, PluginOptions};
use crate::metrics::DeviceMetrics;

/// Maximum bytes of what is quoted of a request in logs.
const MAX_QUOTED: usize = 200;

/// A plugin that was accepted.
pub(crate) struct Accepted {
    pub(crate) resource: String,
    pub(crate) socket: PathBuf,
    pub(crate) plugin: GrpcPlugin,
    pub(crate) options: PluginOptions,
}

/// Why a plugin is not registered, in upstream's words.
#[derive(Debug, thiserror::Error)]
enum RegisterError {
    #[error(transparent)]
    Name(#[from] NameError),
    #[error("failed to dial device plugin: {0}")]
    Dial(CallError),
    #[error("failed to get device plugin options: {0}")]
    Options(CallError),
    #[error("the kubelet stops")]
    Stopped,
}

/// The service.
#[derive(Clone)]
pub(crate) struct RegistrationService {
    /// The directory of plugins' sockets.
    pub(crate) dir: PathBuf,
    pub(crate) metrics: DeviceMetrics,
    /// Receives the accepted plugins.
    pub(crate) accepted: mpsc::Sender<Accepted>,
}

impl RegistrationService {
    async fn accept(&self, request: RegisterRequest) -> Result<(), RegisterError> {
        let RegisterRequest { version, endpoint, resource_name: resource, options: _ } = request;
        check_versions([version.as_str()])?;
        check_resource(&resource)?;
        let socket = socket(&self.dir, &endpoint)?;
        let plugin = GrpcPlugin::connect(&socket).await.map_err(RegisterError::Dial)?;
        // Those of the request may be left out, so that upstream asks, too.
        let options = plugin.options().await.map_err(RegisterError::Options)?;
        let accepted = Accepted { resource, socket, plugin, options };
        self.accepted.send(accepted).await.map_err(|_| RegisterError::Stopped)
    }
}

#[async_trait]
impl Registration for RegistrationService {
    async fn register(&self, request: Request<RegisterRequest>) -> Result<Response<Empty>, Status> {
        let request = request.into_inner();
        let resource = one_line(&request.resource_name, MAX_QUOTED);
        let endpoint = one_line(&request.endpoint, MAX_QUOTED);
        let is_name = check_resource(&request.resource_name).is_ok();
        if is_name {
            self.metrics.registered(&resource);
        }
        match self.accept(request).await {
            Ok(()) => Ok(Response::new(Empty {})),
            Err(error) => {
                tracing::warn!(resource, endpoint, %error, "a device plugin is not registered");
                // The code of an error of Go without another.
                Err(Status::unknown(error.to_string()))
            }
        }
    }
}
