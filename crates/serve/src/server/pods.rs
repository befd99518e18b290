//! `GET /v1/pods`: the pods and the problems of this node, once or at each change.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{Query, State};
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use futures::{StreamExt, stream};
use hostlet_base::{PodUid, reasons};
use hostlet_cluster::api::CertificateReport;
use hostlet_engine::shutdown::ShutdownView;
use hostlet_engine::source::SourceState;
use hostlet_observe::status::{DirectoryChanges, DirectoryEntry};
use hostlet_plugins::PluginList;
use hostlet_pod::resources::qos_class;
use hostlet_pod::{ApiState, PodPhase, pod_uid};
use hostlet_runtime::cri::Call;
use k8s_openapi::api::core::v1::{Pod, PodStatus};
use serde::Deserialize;
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::find::PodFinder;
use super::problems::{HostProblems, ImageArchives, RuntimeHealth, certificate_view};
use super::view::{HungCallView, PodsView, Problem};
use crate::explain::pressure_sentences;

/// Minimum interval between views of a watch, which limits the output of a busy node.
const WATCH_PAUSE: Duration = Duration::from_millis(200);

/// What the view is made of.
#[derive(Clone)]
pub struct PodsEndpoint {
    /// The pods of this node.
    pub finder: PodFinder,
    /// The static pods and the manifests that cannot be read.
    pub manifests: watch::Receiver<SourceState>,
    /// State of the API server's pods.
    pub api: watch::Receiver<ApiState>,
    /// What new pods wait for.
    pub awaited_grants: watch::Receiver<BTreeMap<PodUid, String>>,
    /// State of the container runtime.
    pub runtime: RuntimeHealth,
    /// What is wrong with the host, shown above the pods.
    pub host: HostProblems,
    /// The directory of image archives, if configured.
    pub archives: Option<ImageArchives>,
    /// The state of the client certificate.
    pub certificate: watch::Receiver<Option<CertificateReport>>,
    /// The shutdown of the host.
    pub shutdown: watch::Receiver<ShutdownView>,
    /// The plugins of this host.
    pub plugins: PluginList,
}

impl PodsEndpoint {
    /// The endpoint. Its watches end when cancelled.
    pub(super) fn routes(self, cancel: CancellationToken) -> Router {
        Router::new().route("/v1/pods", get(pods)).with_state((Arc::new(self), cancel))
    }

    fn view(&self) -> PodsView {
        let manifests = self.manifests.borrow();
        let problems = manifests.problems.iter().map(|problem| Problem {
            file: problem.origin.to_string(),
            pod: problem.pod.clone(),
            message: problem.message.clone(),
            since: problem.since,
        });
        let PodFinder { node, pods } = &self.finder;
        PodsView {
            node: node.clone(),
            pods: in_order(pods.sorted().iter().map(DirectoryEntry::with_status).chain(self.waiting())),
            problems: problems.collect(),
            pressure: pressure_sentences(&self.host.pressure.borrow()),
            trouble: self.runtime.problem().map(|problem| problem.to_string()),
            store: self.host.store.borrow().clone(),
            shims: self.host.shims.borrow().clone(),
            foreign: self.host.foreign.borrow().clone(),
            limits: self.host.refused_limits(),
            kubelets: self.host.kubelets.borrow().clone(),
            offline: self.host.offline.borrow().clone(),
            credentials: self.host.exposure.borrow().clone(),
            certificate: certificate_view(&self.certificate),
            shutdown: self.shutdown.borrow().sentence(),
            api: self.api.borrow().problem.clone(),
            hung: self.hung(),
            archives: self.archives.as_ref().map(ImageArchives::view).unwrap_or_default(),
            plugins: self.plugins.problems(),
        }
    }

    /// The pods that wait to be admitted until they can be given something, with what that is.
    fn waiting(&self) -> Vec<Pod> {
        let awaited = self.awaited_grants.borrow().clone();
        if awaited.is_empty() {
            return Vec::new();
        }
        let defined = self.manifests.borrow().pods.iter().map(|pod| pod.pod.clone()).collect::<Vec<_>>();
        let of_api = self.api.borrow().pods.values().map(|pod| pod.pod.clone()).collect::<Vec<_>>();
        let waiting = defined.into_iter().chain(of_api).filter_map(|pod| {
            let reason = awaited.get(&pod_uid(&pod))?;
            Some(Pod { status: Some(waiting_status(&pod, reason)), ..Pod::clone(&pod) })
        });
        waiting.collect()
    }

    fn hung(&self) -> Vec<HungCallView> {
        let now = Instant::now();
        let hung_call = |call: Call| HungCallView {
            call: call.operation.to_string(),
            subject: call.subject.to_string(),
            pod: self.runtime.pleg.cache().pod_of(&call.subject).map(|pod| pod.to_string()),
            seconds: now.duration_since(call.since).as_secs(),
        };
        self.runtime.calls.hung(now).into_iter().map(hung_call).collect()
    }

    /// Waits until the view changes.
    async fn changed(&mut self, pods: &mut DirectoryChanges) -> bool {
        let changed = tokio::select! {
            // Cancel-safe as documented there.
            changed = pods.changed() => changed.is_ok(),
            // Cancel-safe, these: a watch marks its value seen only when `changed` returns.
            changed = self.manifests.changed() => changed.is_ok(),
            // Never changes on a standalone host.
            Ok(()) = self.api.changed() => true,
            Ok(()) = self.awaited_grants.changed() => true,
            changed = self.runtime.status.changed() => changed.is_ok(),
            changed = self.host.store.changed() => changed.is_ok(),
            // Never changes with a runtime other than containerd.
            Ok(()) = self.host.shims.changed() => true,
            Ok(()) = self.host.foreign.changed() => true,
            Ok(()) = self.host.kubelets.changed() => true,
            Ok(()) = self.host.limits.changed() => true,
            Ok(()) = self.host.pressure.changed() => true,
            // None of these changes on a standalone host.
            Ok(()) = self.host.offline.changed() => true,
            Ok(()) = self.host.exposure.changed() => true,
            Ok(()) = self.certificate.changed() => true,
            Ok(()) = self.shutdown.changed() => true,
            // Cancel-safe as documented there.
            () = self.plugins.changed() => true,
            changed = changed_if(&mut self.archives) => changed.is_ok(),
        };
        tokio::time::sleep(WATCH_PAUSE).await;
        changed
    }
}

/// The pods by namespace and name.
fn in_order(pods: impl Iterator<Item = Pod>) -> Vec<Pod> {
    let mut pods: Vec<Pod> = pods.collect();
    pods.sort_by(|a, b| {
        let (a, b) = (&a.metadata, &b.metadata);
        (&a.namespace, &a.name).cmp(&(&b.namespace, &b.name))
    });
    pods
}

/// The status of a pod that waits to be admitted.
fn waiting_status(pod: &Pod, reason: &str) -> PodStatus {
    PodStatus {
        phase: Some(PodPhase::Pending.to_string()),
        reason: Some(reasons::ADMISSION_DELAYED.to_owned()),
        message: Some(format!("The pod {reason}")),
        qos_class: Some(qos_class(pod).to_string()),
        ..pod.status.clone().unwrap_or_default()
    }
}

/// Waits for a change; forever without image archives. Cancel-safe.
async fn changed_if(archives: &mut Option<ImageArchives>) -> Result<(), watch::error::RecvError> {
    match archives {
        Some(archives) => archives.problems.changed().await,
        None => std::future::pending().await,
    }
}

/// The query.
#[derive(Deserialize)]
struct PodsQuery {
    #[serde(default)]
    watch: bool,
}

/// The view as JSON; with `watch=true` one view per line, now and after each change.
async fn pods(
    State((endpoint, cancel)): State<(Arc<PodsEndpoint>, CancellationToken)>,
    Query(query): Query<PodsQuery>,
) -> Response {
    if !query.watch {
        return match serde_json::to_vec(&endpoint.view()) {
            Ok(view) => ([(CONTENT_TYPE, "application/json")], view).into_response(),
            Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
        };
    }
    let changes = endpoint.finder.pods.changes();
    let watched = PodsEndpoint::clone(&endpoint);
    let views = stream::unfold((watched, changes, true), |(mut watched, mut changes, first)| async move {
        if !first && !watched.changed(&mut changes).await {
            return None;
        }
        let mut line = serde_json::to_vec(&watched.view()).unwrap_or_default();
        line.push(b'\n');
        Some((Ok::<_, Infallible>(Bytes::from(line)), (watched, changes, false)))
    });
    let views = views.take_until(cancel.cancelled_owned());
    ([(CONTENT_TYPE, "application/x-ndjson")], Body::from_stream(views)).into_response()
}
