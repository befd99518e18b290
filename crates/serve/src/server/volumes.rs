//! `GET /v1/volumes`: the volumes of CSI drivers on this node, and what is done with them.

use std::collections::HashMap;
use std::sync::Arc;

use axum::extract::State;
use axum::routing::get;
use axum::{Json, Router};
use hostlet_base::PodUid;
use hostlet_csi::{CsiVolumes, VolumeView};
use hostlet_observe::status::{DirectoryEntry, PodDirectory};

/// What the endpoint reads.
pub struct VolumesEndpoint {
    /// The volumes.
    pub volumes: CsiVolumes,
    /// The pods, for their names.
    pub pods: PodDirectory,
}

impl VolumesEndpoint {
    /// The endpoint.
    pub(super) fn routes(self) -> Router {
        Router::new().route("/v1/volumes", get(volumes)).with_state(Arc::new(self))
    }
}

/// All of them, by driver and handle.
async fn volumes(State(endpoint): State<Arc<VolumesEndpoint>>) -> Json<Vec<VolumeView>> {
    Json(named(endpoint.volumes.views(), &endpoint.pods.all()))
}

/// The volumes with the names of their pods.
fn named(mut volumes: Vec<VolumeView>, pods: &HashMap<PodUid, DirectoryEntry>) -> Vec<VolumeView> {
    for pod in volumes.iter_mut().flat_map(|volume| &mut volume.pods) {
        let known = pods.get(&PodUid::from(pod.uid.as_str())).map(DirectoryEntry::reference);
        pod.pod = known.map(|pod| format!("{}/{}", pod.namespace, pod.name));
    }
    volumes
}
