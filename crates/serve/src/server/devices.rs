//! `GET /v1/devices`: the devices of device plugins on this node, and who has them.

use std::collections::HashMap;
use std::sync::Arc;

use axum::extract::State;
use axum::routing::get;
use axum::{Json, Router};
use hostlet_base::PodUid;
use hostlet_devices::{Devices, ResourceView};
use hostlet_observe::status::{DirectoryEntry, PodDirectory};
use serde::{Deserialize, Serialize};

/// What the endpoint reads.
pub struct DevicesEndpoint {
    /// The devices.
    pub devices: Devices,
    /// The pods, for their names.
    pub pods: PodDirectory,
}

/// The devices, and what is wrong with their record or registration.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DevicesView {
    /// The resources, by name.
    pub resources: Vec<ResourceView>,
    /// Sentences.
    pub problems: Vec<String>,
}

impl DevicesEndpoint {
    /// The endpoint.
    pub(super) fn routes(self) -> Router {
        Router::new().route("/v1/devices", get(devices)).with_state(Arc::new(self))
    }
}

async fn devices(State(endpoint): State<Arc<DevicesEndpoint>>) -> Json<DevicesView> {
    let resources = named(endpoint.devices.views(), &endpoint.pods.all());
    Json(DevicesView { resources, problems: endpoint.devices.problems() })
}

/// The devices with the names of the pods that have them.
fn named(mut resources: Vec<ResourceView>, pods: &HashMap<PodUid, DirectoryEntry>) -> Vec<ResourceView> {
    let devices = resources.iter_mut().flat_map(|resource| &mut resource.devices);
    for holder in devices.flat_map(|device| &mut device.holders) {
        let known = pods.get(&PodUid::from(holder.uid.as_str())).map(DirectoryEntry::reference);
        holder.pod = known.map(|pod| format!("{}/{}", pod.namespace, pod.name));
    }
    resources
}
