//! `GET /v1/pods`: the pods and the problems of this node, once or at each change.

use std::convert::Infallible;
use std::path::PathBuf;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::{Query, State};
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use futures::{StreamExt, stream};
use serde::Deserialize;
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::control::ControlServer;
use super::view::{HungCall, NodeView, Problem};
use hostlet_observe::status::{DirectoryChanges, DirectoryEntry};
use hostlet_runtime::cri::Call;

/// Minimum interval between views of a watch, which limits the output of a busy node.
const WATCH_PAUSE: Duration = Duration::from_millis(200);

impl ControlServer {
    fn view(&self) -> NodeView {
        let source = self.source.borrow();
        let problems = source.problems.iter().map(|problem| Problem {
            file: problem.origin.to_string(),
            pod: problem.pod.clone(),
            message: problem.message.clone(),
            since: problem.since,
        });
        NodeView {
            node: self.node.clone(),
            pods: self.pods.sorted().iter().map(DirectoryEntry::with_status).collect(),
            problems: problems.collect(),
            trouble: self.node_problem().map(|problem| problem.to_string()),
            store: self.store.borrow().clone(),
            shims: self.shims.borrow().clone(),
            foreign: self.foreign.borrow().clone(),
            kubelets: self.kubelets.borrow().clone(),
            credentials: self.exposure.borrow().clone(),
            certificate: self.certificate_view(),
            shutdown: self.shutdown.borrow().sentence(),
            api: self.api.borrow().problem.clone(),
            hung: self.hung(),
            archives: self.archives(),
            plugins: self.plugins.problems(),
        }
    }

    fn hung(&self) -> Vec<HungCall> {
        let now = Instant::now();
        let hung_call = |call: Call| HungCall {
            call: call.operation.to_string(),
            subject: call.subject.to_string(),
            pod: self.pleg.cache().pod_of(&call.subject).map(|pod| pod.to_string()),
            seconds: now.duration_since(call.since).as_secs(),
        };
        self.calls.hung(now).into_iter().map(hung_call).collect()
    }

    /// Waits until the view changes.
    async fn changed(&mut self, pods: &mut DirectoryChanges) -> bool {
        let changed = tokio::select! {
            // Cancel-safe as documented there.
            changed = pods.changed() => changed.is_ok(),
            // Cancel-safe, these: a watch marks its value seen only when `changed` returns.
            changed = self.source.changed() => changed.is_ok(),
            // Never changes on a standalone host.
            Ok(()) = self.api.changed() => true,
            changed = self.runtime.changed() => changed.is_ok(),
            changed = self.store.changed() => changed.is_ok(),
            // Never changes with a runtime other than containerd.
            Ok(()) = self.shims.changed() => true,
            Ok(()) = self.foreign.changed() => true,
            Ok(()) = self.kubelets.changed() => true,
            // Neither changes on a standalone host.
            Ok(()) = self.exposure.changed() => true,
            Ok(()) = self.certificate.changed() => true,
            Ok(()) = self.shutdown.changed() => true,
            // Cancel-safe as documented there.
            () = self.plugins.changed() => true,
            changed = changed_if(&mut self.preload) => changed.is_ok(),
        };
        tokio::time::sleep(WATCH_PAUSE).await;
        changed
    }
}

/// Waits for a change; forever without preloading. Cancel-safe.
async fn changed_if<T>(
    preload: &mut Option<(PathBuf, watch::Receiver<T>)>,
) -> Result<(), watch::error::RecvError> {
    match preload {
        Some((_, problems)) => problems.changed().await,
        None => std::future::pending().await,
    }
}

/// The query.
#[derive(Deserialize)]
pub(super) struct PodsQuery {
    #[serde(default)]
    watch: bool,
}

/// The view as JSON; with `watch=true` one view per line, now and after each change.
pub(super) async fn pods(
    State((server, cancel)): State<(ControlServer, CancellationToken)>,
    Query(query): Query<PodsQuery>,
) -> Response {
    if !query.watch {
        return match serde_json::to_vec(&server.view()) {
            Ok(view) => ([(CONTENT_TYPE, "application/json")], view).into_response(),
            Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
        };
    }
    let changes = server.pods.changes();
    let views = stream::unfold((server, changes, true), |(mut server, mut changes, first)| async move {
        if !first && !server.changed(&mut changes).await {
            return None;
        }
        let mut line = serde_json::to_vec(&server.view()).unwrap_or_default();
        line.push(b'\n');
        Some((Ok::<_, Infallible>(Bytes::from(line)), (server, changes, false)))
    });
    let views = views.take_until(cancel.cancelled_owned());
    ([(CONTENT_TYPE, "application/x-ndjson")], Body::from_stream(views)).into_response()
}
