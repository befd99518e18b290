//! `POST /v1/exec`: runs a command in a container, without a terminal or input.

use std::time::Duration;

use axum::Json;
use axum::extract::{Query, State};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;

use super::control::ControlServer;
use super::error::RequestError;
use super::find::{find_container, find_pod, find_running};

/// The query of `/v1/exec`. The body is the command as a JSON list of its words.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExecQuery {
    /// Name of the pod, with or without the node's appended, or `<namespace>/<name>`.
    pub pod: String,
    /// Namespace of the pod; any if missing.
    pub namespace: Option<String>,
    /// Name of the container; optional if there is only one.
    pub container: Option<String>,
    /// Limit of its run, in seconds; a minute unless given.
    #[serde(default = "default_timeout")]
    pub timeout: u64,
}

const fn default_timeout() -> u64 {
    60
}

/// The result of a command.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ExecView {
    /// Its standard output, in base64: it may be anything.
    pub stdout: String,
    /// Its standard error, in base64.
    pub stderr: String,
    /// Its exit code.
    pub exit_code: i32,
}

/// Runs the command, and responds when it has exited.
pub(super) async fn exec(
    State((server, _)): State<(ControlServer, CancellationToken)>,
    Query(query): Query<ExecQuery>,
    Json(command): Json<Vec<String>>,
) -> Result<Json<ExecView>, RequestError> {
    if command.is_empty() {
        return Err(RequestError::NoCommand);
    }
    let pods = server.pods();
    let pod = find_pod(&pods, &server.node, &query.pod, query.namespace.as_deref())?;
    let container = find_container(pod, query.container.as_deref())?;
    let id = find_running(pod, container)?;
    let output = server.service.exec_sync(&id, command, Duration::from_secs(query.timeout)).await;
    let output = output.map_err(RequestError::Exec)?;
    Ok(Json(ExecView {
        stdout: STANDARD.encode(output.stdout),
        stderr: STANDARD.encode(output.stderr),
        exit_code: output.exit_code,
    }))
}
