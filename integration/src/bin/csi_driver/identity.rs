//! The identity service.

use std::sync::Arc;

use hostlet_proto::csi::plugin_capability::service::Type as ServiceType;
use hostlet_proto::csi::plugin_capability::volume_expansion::Type as ExpansionType;
use hostlet_proto::csi::plugin_capability::{Service, Type, VolumeExpansion};
use hostlet_proto::csi::{self, PluginCapability};
use serde_json::json;
use tonic::{Request, Response, Status};

use crate::calls::Calls;
use crate::options::Options;

pub(crate) struct Identity {
    pub(crate) options: Arc<Options>,
    pub(crate) calls: Arc<Calls>,
}

#[tonic::async_trait]
impl csi::identity_server::Identity for Identity {
    async fn get_plugin_info(
        &self,
        _: Request<csi::GetPluginInfoRequest>,
    ) -> Result<Response<csi::GetPluginInfoResponse>, Status> {
        let answer = csi::GetPluginInfoResponse {
            name: self.options.name.clone(),
            vendor_version: "1".to_owned(),
            ..Default::default()
        };
        self.calls.serve("GetPluginInfo", json!({}), || Ok(answer)).await
    }

    async fn get_plugin_capabilities(
        &self,
        _: Request<csi::GetPluginCapabilitiesRequest>,
    ) -> Result<Response<csi::GetPluginCapabilitiesResponse>, Status> {
        let service = |which: ServiceType| Type::Service(Service { r#type: which.into() });
        let mut types = vec![service(ServiceType::ControllerService)];
        if !self.options.topology.is_empty() {
            types.push(service(ServiceType::VolumeAccessibilityConstraints));
        }
        if self.options.has("Controller", "EXPAND_VOLUME") {
            types.push(Type::VolumeExpansion(VolumeExpansion { r#type: ExpansionType::Online.into() }));
        }
        let capabilities =
            types.into_iter().map(|r#type| PluginCapability { r#type: Some(r#type) }).collect();
        let answer = csi::GetPluginCapabilitiesResponse { capabilities };
        self.calls.serve("GetPluginCapabilities", json!({}), || Ok(answer)).await
    }

    async fn probe(&self, _: Request<csi::ProbeRequest>) -> Result<Response<csi::ProbeResponse>, Status> {
        self.calls.serve("Probe", json!({}), || Ok(csi::ProbeResponse { ready: Some(true) })).await
    }
}
