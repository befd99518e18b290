//! `GET /v1/node`: this node as its own kubelet sees it, and its contact with the API server. `GET /v1/connections`: counts of the
//! connections to the API server by purpose. `GET /v1/plugins`: the plugins at the registration sockets of this host.

use std::sync::Arc;

use axum::extract::State;
use axum::routing::get;
use axum::{Json, Router};
use hostlet_base::PodUid;
use hostlet_cluster::api::{CertificateReport, Connections, LaneCounts};
use hostlet_cluster::node::{NodeDescriber, NodeDescription};
use hostlet_engine::grants::{NumaGrants, NumaView};
use hostlet_observe::status::{DirectoryEntry, PodDirectory};
use hostlet_plugins::{PluginList, PluginView};
use hostlet_pod::ApiState;
use hostlet_runtime::cri::RuntimeService;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use tokio::sync::watch;

use super::problems::certificate_view;
use super::view::CertificateView;

/// The node and its contact with the API server.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeReport {
    /// What it is.
    #[serde(flatten)]
    pub description: NodeDescription,
    /// Its contact with the API server; `None` on a standalone host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api_server: Option<ApiContact>,
    /// Who has which CPUs and memory of NUMA nodes; `None` if nobody is granted any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub numa: Option<NumaView>,
}

/// The contact with the API server.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ApiContact {
    /// The last response to any request; `None` before the first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_response: Option<Timestamp>,
    /// Why the pods of this node cannot be read, if so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
    /// The state of the client certificate, if the node has or needs one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub certificate: Option<CertificateView>,
    /// The connections by purpose.
    pub connections: Vec<LaneCounts>,
}

/// What describes the node.
pub struct NodeEndpoints {
    /// Describes it to the API server, too.
    pub describer: NodeDescriber,
    /// The container runtime, for its version.
    pub runtime: Arc<dyn RuntimeService>,
    /// The connections to the API server.
    pub connections: Connections,
    /// State of the API server's pods.
    pub api: watch::Receiver<ApiState>,
    /// The state of the client certificate.
    pub certificate: watch::Receiver<Option<CertificateReport>>,
    /// The plugins of this host.
    pub plugins: PluginList,
    /// CPUs and memory that containers have for themselves.
    pub numa: NumaGrants,
    /// The pods, for their names.
    pub pods: PodDirectory,
}

impl NodeEndpoints {
    /// The endpoints.
    pub(super) fn routes(self) -> Router {
        Router::new()
            .route("/v1/node", get(node))
            .route("/v1/connections", get(connections))
            .route("/v1/plugins", get(plugins))
            .with_state(Arc::new(self))
    }
}

async fn node(State(endpoints): State<Arc<NodeEndpoints>>) -> Json<NodeReport> {
    // Without an answer the node is described as not ready, as it is.
    let version = endpoints.runtime.version().await.ok();
    let description = endpoints.describer.describe(version, Timestamp::now());
    let connections = endpoints.connections.counts();
    let api_server = (!connections.is_empty()).then(|| ApiContact {
        last_response: connections.iter().filter_map(|lane| lane.last_response).max(),
        problem: endpoints.api.borrow().problem.clone(),
        certificate: certificate_view(&endpoints.certificate),
        connections,
    });
    let numa = endpoints.numa.view().map(|numa| named(numa, &endpoints.pods));
    Json(NodeReport { description, api_server, numa })
}

/// The view with the names of the pods.
fn named(mut numa: NumaView, pods: &PodDirectory) -> NumaView {
    let pods = pods.all();
    for holder in &mut numa.holders {
        let known = pods.get(&PodUid::from(holder.uid.as_str())).map(DirectoryEntry::reference);
        holder.pod = known.map(|pod| format!("{}/{}", pod.namespace, pod.name));
    }
    numa
}

/// The counts by purpose; empty on a standalone host.
async fn connections(State(endpoints): State<Arc<NodeEndpoints>>) -> Json<Vec<LaneCounts>> {
    Json(endpoints.connections.counts())
}

/// All registration sockets, by path.
async fn plugins(State(endpoints): State<Arc<NodeEndpoints>>) -> Json<Vec<PluginView>> {
    Json(endpoints.plugins.all())
}
