//! The controller service: creates, attaches, grows and deletes volumes.

use std::collections::HashMap;
use std::sync::Arc;

use hostlet_proto::csi;
use hostlet_proto::csi::controller_service_capability::rpc::Type as RpcType;
use hostlet_proto::csi::controller_service_capability::{Rpc, Type};
use hostlet_proto::csi::volume_capability::AccessType;
use hostlet_proto::csi::volume_capability::access_mode::Mode;
use serde_json::json;
use tonic::{Request, Response, Status};

use crate::calls::{Calls, Failed, invalid, not_found, required};
use crate::options::Options;
use crate::volumes::{DEFAULT_SIZE, Volume, Volumes};

/// The key of the publish context, whose value is the node.
pub(crate) const ATTACHED_TO: &str = "attachedTo";

pub(crate) struct Controller {
    pub(crate) options: Arc<Options>,
    pub(crate) calls: Arc<Calls>,
    pub(crate) volumes: Arc<Volumes>,
}

/// The size that is asked for, bytes.
fn size(range: Option<csi::CapacityRange>) -> Result<Option<u64>, Failed> {
    let Some(range) = range else { return Ok(None) };
    let number = |bytes: i64| u64::try_from(bytes).map_err(|_| invalid("a negative size"));
    let (most, least) = (number(range.limit_bytes)?, number(range.required_bytes)?);
    if most > 0 && least > most {
        return Err(invalid("limit_bytes is less than required_bytes"));
    }
    Ok(Some(if least > 0 { least } else { most }).filter(|size| *size > 0))
}

fn wire(volume: &Volume, options: &Options) -> csi::Volume {
    let segments: HashMap<String, String> = options.topology.clone().into_iter().collect();
    let accessible_topology = if segments.is_empty() { Vec::new() } else { vec![csi::Topology { segments }] };
    csi::Volume {
        capacity_bytes: i64::try_from(volume.size).unwrap_or(i64::MAX),
        volume_id: volume.id.clone(),
        volume_context: HashMap::from([("name".to_owned(), volume.name.clone())]),
        content_source: None,
        accessible_topology,
    }
}

fn is_block(capability: &csi::VolumeCapability) -> bool {
    matches!(capability.access_type, Some(AccessType::Block(_)))
}

/// Whether a volume with this access mode can be attached to several nodes.
fn is_of_many_nodes(capability: &csi::VolumeCapability) -> bool {
    let mode = capability.access_mode.map(|mode| mode.mode());
    matches!(mode, Some(Mode::MultiNodeReaderOnly | Mode::MultiNodeSingleWriter | Mode::MultiNodeMultiWriter))
}

#[tonic::async_trait]
impl csi::controller_server::Controller for Controller {
    async fn controller_get_capabilities(
        &self,
        _: Request<csi::ControllerGetCapabilitiesRequest>,
    ) -> Result<Response<csi::ControllerGetCapabilitiesResponse>, Status> {
        let mut types = vec![RpcType::CreateDeleteVolume];
        if self.options.attaches {
            types.extend([RpcType::PublishUnpublishVolume, RpcType::PublishReadonly]);
        }
        types.extend([RpcType::ExpandVolume, RpcType::SingleNodeMultiWriter]);
        types.retain(|which| self.options.has("Controller", which.as_str_name()));
        let capability = |which: RpcType| csi::ControllerServiceCapability {
            r#type: Some(Type::Rpc(Rpc { r#type: which.into() })),
        };
        let capabilities = types.into_iter().map(capability).collect();
        let answer = csi::ControllerGetCapabilitiesResponse { capabilities };
        self.calls.serve("ControllerGetCapabilities", json!({}), || Ok(answer)).await
    }

    async fn create_volume(
        &self,
        request: Request<csi::CreateVolumeRequest>,
    ) -> Result<Response<csi::CreateVolumeResponse>, Status> {
        let request = request.into_inner();
        let about = json!({"name": request.name, "parameters": request.parameters});
        let (options, volumes) = (self.options.clone(), self.volumes.clone());
        let work = move || {
            required(&request.name, "name")?;
            if request.volume_capabilities.is_empty() {
                return Err(invalid("volume_capabilities are missing"));
            }
            let asked = size(request.capacity_range)?;
            // A directory cannot be a device.
            let is_image = options.is_image || request.volume_capabilities.iter().any(is_block);
            let volume = volumes.create(&request.name, asked.unwrap_or(DEFAULT_SIZE), is_image)?;
            if asked.is_some_and(|asked| asked != volume.size) {
                return Err(Status::already_exists("the volume exists with another size").into());
            }
            Ok(csi::CreateVolumeResponse { volume: Some(wire(&volume, &options)) })
        };
        self.calls.serve("CreateVolume", about, work).await
    }

    async fn delete_volume(
        &self,
        request: Request<csi::DeleteVolumeRequest>,
    ) -> Result<Response<csi::DeleteVolumeResponse>, Status> {
        let request = request.into_inner();
        let volumes = self.volumes.clone();
        let about = json!({"volume": request.volume_id});
        let work = move || {
            volumes.delete(required(&request.volume_id, "volume_id")?)?;
            Ok(csi::DeleteVolumeResponse {})
        };
        self.calls.serve("DeleteVolume", about, work).await
    }

    async fn controller_publish_volume(
        &self,
        request: Request<csi::ControllerPublishVolumeRequest>,
    ) -> Result<Response<csi::ControllerPublishVolumeResponse>, Status> {
        let request = request.into_inner();
        let about =
            json!({"volume": request.volume_id, "node": request.node_id, "readOnly": request.readonly});
        let (options, volumes) = (self.options.clone(), self.volumes.clone());
        let work = move || {
            let volume = required(&request.volume_id, "volume_id")?;
            let node = required(&request.node_id, "node_id")?;
            let capability =
                request.volume_capability.as_ref().ok_or_else(|| invalid("volume_capability is missing"))?;
            volumes.get(volume)?;
            if !volumes.has_node(node) {
                return Err(not_found(&format!("there is no node {node}")));
            }
            let others = volumes.all()?;
            let others =
                others.iter().filter(|other| other.id != volume && other.attached.contains_key(node));
            if options.max_volumes > 0 && others.count() as i64 >= options.max_volumes {
                return Err(
                    Status::resource_exhausted(format!("no room on {node} for another volume")).into()
                );
            }
            volumes.change(volume, |volume| {
                let is_elsewhere = volume.attached.keys().any(|other| other != node);
                if is_elsewhere && !is_of_many_nodes(capability) {
                    return Err(Status::failed_precondition("the volume is attached to another node").into());
                }
                if volume.attached.get(node).is_some_and(|read_only| *read_only != request.readonly) {
                    return Err(Status::already_exists("the volume is attached with another readonly").into());
                }
                volume.attached.insert(node.to_owned(), request.readonly);
                Ok(())
            })?;
            let publish_context = HashMap::from([(ATTACHED_TO.to_owned(), node.to_owned())]);
            Ok(csi::ControllerPublishVolumeResponse { publish_context })
        };
        self.calls.serve("ControllerPublishVolume", about, work).await
    }

    async fn controller_unpublish_volume(
        &self,
        request: Request<csi::ControllerUnpublishVolumeRequest>,
    ) -> Result<Response<csi::ControllerUnpublishVolumeResponse>, Status> {
        let request = request.into_inner();
        let about = json!({"volume": request.volume_id, "node": request.node_id});
        let volumes = self.volumes.clone();
        let work = move || {
            let id = required(&request.volume_id, "volume_id")?;
            let detached = volumes.change(id, |volume| {
                if request.node_id.is_empty() {
                    volume.attached.clear();
                } else {
                    volume.attached.remove(&request.node_id);
                }
                Ok(())
            });
            match detached {
                Err(Failed::Status(status)) if status.code() == tonic::Code::NotFound => {}
                other => other?,
            }
            Ok(csi::ControllerUnpublishVolumeResponse {})
        };
        self.calls.serve("ControllerUnpublishVolume", about, work).await
    }

    async fn validate_volume_capabilities(
        &self,
        request: Request<csi::ValidateVolumeCapabilitiesRequest>,
    ) -> Result<Response<csi::ValidateVolumeCapabilitiesResponse>, Status> {
        let request = request.into_inner();
        let volumes = self.volumes.clone();
        let about = json!({"volume": request.volume_id});
        let work = move || {
            let id = required(&request.volume_id, "volume_id")?;
            if request.volume_capabilities.is_empty() {
                return Err(invalid("volume_capabilities are missing"));
            }
            let volume = volumes.get(id)?;
            if !volume.is_image && request.volume_capabilities.iter().any(is_block) {
                let message = "a directory is no device".to_owned();
                return Ok(csi::ValidateVolumeCapabilitiesResponse { confirmed: None, message });
            }
            let confirmed = csi::validate_volume_capabilities_response::Confirmed {
                volume_context: request.volume_context,
                volume_capabilities: request.volume_capabilities,
                parameters: request.parameters,
                ..Default::default()
            };
            Ok(csi::ValidateVolumeCapabilitiesResponse { confirmed: Some(confirmed), ..Default::default() })
        };
        self.calls.serve("ValidateVolumeCapabilities", about, work).await
    }

    async fn controller_expand_volume(
        &self,
        request: Request<csi::ControllerExpandVolumeRequest>,
    ) -> Result<Response<csi::ControllerExpandVolumeResponse>, Status> {
        let request = request.into_inner();
        let about = json!({"volume": request.volume_id, "capacity": request.capacity_range.map(|r| r.required_bytes)});
        let (options, volumes) = (self.options.clone(), self.volumes.clone());
        let work = move || {
            let id = required(&request.volume_id, "volume_id")?;
            let asked = size(request.capacity_range)?.ok_or_else(|| invalid("capacity_range is missing"))?;
            let grown = volumes.grow(id, asked)?;
            Ok(csi::ControllerExpandVolumeResponse {
                capacity_bytes: i64::try_from(grown).unwrap_or(i64::MAX),
                node_expansion_required: options.has("Node", "EXPAND_VOLUME"),
            })
        };
        self.calls.serve("ControllerExpandVolume", about, work).await
    }
}
