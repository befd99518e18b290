//! `POST /v1/exec`: prepares a command in a container. The client runs it at the runtime's own streaming server, so that no byte of it
//! passes through the daemon, and a restart of the daemon does not end it.

use std::sync::Arc;

use axum::extract::{Query, State};
use axum::routing::post;
use axum::{Json, Router};
use hostlet_runtime::cri::{RuntimeService, StdStreams};
use serde::{Deserialize, Serialize};

use super::error::RequestError;
use super::find::{PodFinder, find_container, find_running};

/// The query of `/v1/exec`. The body is the command as a JSON list of its words.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExecQuery {
    /// Name of the pod, with or without the node's appended, or `<namespace>/<name>`.
    pub pod: String,
    /// Namespace of the pod; any if missing.
    pub namespace: Option<String>,
    /// Name of the container; optional if there is only one.
    pub container: Option<String>,
    /// Whether the command gets input.
    #[serde(default)]
    pub stdin: bool,
    /// Whether it gets a terminal, which has one output.
    #[serde(default)]
    pub tty: bool,
}

impl ExecQuery {
    /// The streams of the command.
    #[must_use]
    pub fn streams(&self) -> StdStreams {
        StdStreams { stdin: self.stdin, stdout: true, stderr: !self.tty, tty: self.tty }
    }
}

/// Where the command runs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExecView {
    /// The URL of its streams at the container runtime, for one use within a minute (protocol SPDY/3.1, v4.channel.k8s.io).
    pub url: String,
}

/// What commands need.
pub struct ExecEndpoint {
    /// The pods of this node.
    pub finder: PodFinder,
    /// The container runtime.
    pub runtime: Arc<dyn RuntimeService>,
}

impl ExecEndpoint {
    /// The endpoint.
    pub(super) fn routes(self) -> Router {
        Router::new().route("/v1/exec", post(exec)).with_state(Arc::new(self))
    }
}

/// Prepares the command, which runs once the client opens its streams.
async fn exec(
    State(endpoint): State<Arc<ExecEndpoint>>,
    Query(query): Query<ExecQuery>,
    Json(command): Json<Vec<String>>,
) -> Result<Json<ExecView>, RequestError> {
    if command.is_empty() {
        return Err(RequestError::NoCommand);
    }
    let pod = endpoint.finder.find(&query.pod, query.namespace.as_deref())?;
    let container = find_container(&pod, query.container.as_deref())?;
    let id = find_running(&pod, container)?;
    let url = endpoint.runtime.exec(&id, command, query.streams()).await.map_err(RequestError::Exec)?;
    Ok(Json(ExecView { url }))
}
