//! `GET /v1/node`: this node as its own kubelet sees it, and its contact with the API server.

use axum::Json;
use axum::extract::State;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;

use super::control::ControlServer;
use super::view::CertificateView;
use hostlet_cluster::api::LaneCounts;
use hostlet_cluster::node::NodeDescription;

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

pub(super) async fn node(State((server, _)): State<(ControlServer, CancellationToken)>) -> Json<NodeReport> {
    // Without an answer the node is described as not ready, as it is.
    let version = server.service.version().await.ok();
    let description = server.describer.describe(version, Timestamp::now());
    let connections = server.connections.counts();
    let api_server = (!connections.is_empty()).then(|| ApiContact {
        last_response: connections.iter().filter_map(|lane| lane.last_response).max(),
        problem: server.api.borrow().problem.clone(),
        certificate: server.certificate_view(),
        connections,
    });
    Json(NodeReport { description, api_server })
}
