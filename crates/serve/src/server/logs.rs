//! `GET /v1/logs`: a container's decoded log, once or followed.

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::{Query, State};
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use hostlet_engine::container_logs::{ContainerLogs, NoInstance, until_cancelled};
use hostlet_observe::log::LogOptions;
use hostlet_pod::pod_ref;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;

use super::error::RequestError;
use super::find::{FindError, PodFinder, find_container, find_instance, not_started};

/// The query of `/v1/logs`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LogsQuery {
    /// Name of the pod, with or without the node's appended, or `<namespace>/<name>`.
    pub pod: String,
    /// Namespace of the pod; any if missing.
    pub namespace: Option<String>,
    /// Name of the container; optional if there is only one.
    pub container: Option<String>,
    /// Whether to read the previous instance.
    #[serde(default)]
    pub previous: bool,
    /// Only this many last lines.
    pub tail: Option<u64>,
    /// Only lines of this time or later.
    pub since: Option<Timestamp>,
    /// Prefix each line with its timestamp.
    #[serde(default)]
    pub timestamps: bool,
    /// Follow until the container exits.
    #[serde(default)]
    pub follow: bool,
}

/// What logs need.
pub struct LogsEndpoint {
    /// The pods of this node.
    pub finder: PodFinder,
    /// The logs of their containers.
    pub logs: ContainerLogs,
}

impl LogsEndpoint {
    /// The endpoint. Followed logs are aborted when cancelled.
    pub(super) fn routes(self, cancel: CancellationToken) -> Router {
        Router::new().route("/v1/logs", get(logs)).with_state((Arc::new(self), cancel))
    }
}

/// Responds with the text.
async fn logs(
    State((endpoint, cancel)): State<(Arc<LogsEndpoint>, CancellationToken)>,
    Query(query): Query<LogsQuery>,
) -> Result<Response, RequestError> {
    let pod = endpoint.finder.find(&query.pod, query.namespace.as_deref())?;
    let container = find_container(&pod, query.container.as_deref())?;
    let id = find_instance(&pod, container, query.previous)?;
    let options = LogOptions {
        tail: query.tail,
        since: query.since,
        timestamps: query.timestamps,
        ..LogOptions::default()
    };
    let log = endpoint.logs.open(&pod_ref(&pod), &id, options, query.follow).await?;
    let log = log.ok_or_else(|| without_log(&pod, container, query.previous))?;
    let body = Body::from_stream(until_cancelled(log, cancel));
    Ok(([(CONTENT_TYPE, "text/plain; charset=utf-8")], body).into_response())
}

/// The error for a container in the pod's status that the runtime does not have.
fn without_log(pod: &Pod, container: &str, previous: bool) -> FindError {
    if previous {
        let pod = pod.metadata.name.clone().unwrap_or_default();
        FindError::Instance(NoInstance::NoPrevious { container: container.to_owned(), pod })
    } else {
        not_started(pod, container, "not available: the container runtime does not have it".to_owned())
    }
}
