//! `GET /v1/logs`: a container's decoded log, once or followed.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::{Query, State};
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use futures::stream::{BoxStream, StreamExt, unfold};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use serde::{Deserialize, Serialize};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::control::ControlServer;
use super::error::RequestError;
use super::find::{find_container, find_instance, find_pod, no_previous, not_started};
use crate::cri::ContainerState;
use crate::log::{LogError, LogOptions, LogStreaming, Until};
use crate::pleg::PlegHandle;
use crate::pod::pod_ref;
use crate::types::{ContainerId, PodRef, error_chain};

/// Poll interval of a container without a status change of its pod.
const RECHECK: Duration = Duration::from_secs(1);

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

/// Responds with the text. On an error the connection is aborted, because a regular end means that the log is complete.
pub(super) async fn logs(
    State((server, cancel)): State<(ControlServer, CancellationToken)>,
    Query(query): Query<LogsQuery>,
) -> Result<Response, RequestError> {
    let pods = server.pods();
    let pod = find_pod(&pods, &server.node, &query.pod, query.namespace.as_deref())?;
    let container = find_container(pod, query.container.as_deref())?;
    let id = find_instance(pod, container, query.previous)?;
    let path = log_path(&server.pleg, &pod_ref(pod), &id)
        .ok_or_else(|| without_log(pod, container, query.previous))?;
    let options = LogOptions { tail: query.tail, since: query.since, timestamps: query.timestamps };
    let until = if query.follow {
        Until::Ended(Box::pin(ended(server.clone(), pod_ref(pod), id)))
    } else {
        Until::Now
    };
    let log = LogStreaming::open(path, options, until).await?.into_stream();
    let body = Body::from_stream(until_cancelled(log.boxed(), cancel));
    Ok(([(CONTENT_TYPE, "text/plain; charset=utf-8")], body).into_response())
}

/// The path of a container's log; `None` if the runtime no longer has the container.
fn log_path(pleg: &PlegHandle, pod: &PodRef, id: &ContainerId) -> Option<PathBuf> {
    let observed = pleg.cache().get(pod).ok()?;
    let path = &observed.containers.iter().find(|container| container.id == *id)?.log_path;
    (!path.is_empty()).then(|| path.into())
}

/// The error for a container in the pod's status that the runtime does not have.
fn without_log(pod: &Pod, container: &str, previous: bool) -> RequestError {
    if previous {
        no_previous(pod, container).into()
    } else {
        not_started(pod, container, "not available: the container runtime does not have it".to_owned()).into()
    }
}

/// Waits until a container has exited or was removed. One that cannot be inspected may still run.
async fn ended(server: ControlServer, pod: PodRef, id: ContainerId) {
    let mut changes = server.status_cache.changes();
    let may_write = || match server.pleg.cache().get(&pod) {
        Err(_) => true,
        Ok(observed) => {
            observed.containers.iter().filter(|container| container.id == id).any(|container| match container
                .state
            {
                ContainerState::Created | ContainerState::Running | ContainerState::Unknown => true,
                ContainerState::Exited => false,
            })
        }
    };
    while may_write() {
        tokio::select! {
            // Cancel-safe: a watch marks its value seen only when `changed` returns.
            Ok(()) = changes.changed() => {}
            // Cancel-safe: a sleep.
            () = sleep(RECHECK) => {}
        }
    }
}

/// Aborts a log at shutdown: a follower must neither delay it nor mistake it for the container's exit.
fn until_cancelled(
    log: BoxStream<'static, Result<Bytes, LogError>>,
    cancel: CancellationToken,
) -> BoxStream<'static, io::Result<Bytes>> {
    let next = |state: Option<(BoxStream<'static, Result<Bytes, LogError>>, CancellationToken)>| async move {
        let (mut log, cancel) = state?;
        let piece = tokio::select! {
            // Cancel-safe: stops reading the log.
            () = cancel.cancelled() => return Some((Err(io::Error::other("hostlet is shutting down")), None)),
            // Cancel-safe: a stream yields an item only when ready.
            piece = log.next() => piece?,
        };
        match piece {
            Ok(text) => Some((Ok(text), Some((log, cancel)))),
            Err(error) => {
                tracing::warn!(error = error_chain(&error), "aborted a log stream");
                Some((Err(io::Error::other(error)), None))
            }
        }
    };
    unfold(Some((log, cancel)), next).boxed()
}
