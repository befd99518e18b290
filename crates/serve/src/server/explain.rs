//! `GET /v1/explain?pod=NAME`: collects the facts about pods of a name for their explanation. Decides nothing.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::PathBuf;
use std::sync::Arc;

use axum::extract::{Query, State};
use axum::routing::get;
use axum::{Json, Router};
use hostlet_base::{PodRef, PodUid, one_line};
use hostlet_cluster::api_objects::OfflineObjects;
use hostlet_engine::shutdown::ShutdownView;
use hostlet_engine::source::SourceState;
use hostlet_engine::worker::object_references;
use hostlet_host::file_work;
use hostlet_observe::log::log_end;
use hostlet_observe::status::timeline::Timeline;
use hostlet_observe::status::{DirectoryEntry, PodStatusEntry, WorkerActivity};
use hostlet_pod::view::PodView;
use hostlet_pod::{
    AdmittedPod, ApiState, DesiredPods, FailingProbes, ManifestOrigin, ManifestProblem, pod_ref, pod_uid,
};
use hostlet_runtime::cri::{Call, CallSubject, ContainerState};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use serde::Deserialize;
use tokio::sync::watch;
use tokio::time::Instant;

use super::find::PodFinder;
use super::problems::{HostProblems, ImageArchives, RuntimeHealth};
use super::pulls::ImagePulls;
use super::view::PullsView;
use crate::explain::{
    Disposition, ExplainInput, Explanation, HungCall, PodName, explain as explained, matches_pod_name,
    not_read_yet, stored_copies, unknown,
};

/// Maximum length of a quoted log line, in bytes.
const MAX_LINE: usize = 300;

/// The query.
#[derive(Deserialize)]
pub(super) struct PodQuery {
    pub(super) pod: String,
}

/// Where the facts are.
pub struct ExplainEndpoint {
    /// The pods of this node.
    pub finder: PodFinder,
    /// The static pods and the manifests that cannot be read.
    pub manifests: watch::Receiver<SourceState>,
    /// State of the API server's pods.
    pub api: watch::Receiver<ApiState>,
    /// The admitted pods.
    pub desired_pods: watch::Receiver<DesiredPods>,
    /// What new pods wait for.
    pub awaited_grants: watch::Receiver<BTreeMap<PodUid, String>>,
    /// State of the container runtime.
    pub runtime: RuntimeHealth,
    /// What is wrong with the host that may hold up a pod.
    pub host: HostProblems,
    /// The pulls in progress.
    pub pulls: ImagePulls,
    /// The directory of image archives, if configured.
    pub archives: Option<ImageArchives>,
    /// The timelines, which name removed pods, too.
    pub timeline: Timeline,
    /// The shutdown of the host.
    pub shutdown: watch::Receiver<ShutdownView>,
    /// The failing probes of all pods.
    pub failing_probes: FailingProbes,
    /// The stored copies of objects.
    pub offline: OfflineObjects,
}

/// The explanations of all pods that match the name, or one that says that there is none.
async fn explain(
    State(endpoint): State<Arc<ExplainEndpoint>>,
    Query(query): Query<PodQuery>,
) -> Json<Vec<Explanation>> {
    let now = Timestamp::now();
    Json(endpoint.explanations(&query.pod, &endpoint.pulls.view(now).await, now).await)
}

/// The facts about a pod.
struct KnownPod {
    pod: Arc<Pod>,
    disposition: Disposition,
    reported: Option<PodStatusEntry>,
    /// Its manifest, if it still has one.
    origin: Option<ManifestOrigin>,
}

impl ExplainEndpoint {
    /// The endpoint.
    pub(super) fn routes(self) -> Router {
        Router::new().route("/v1/explain", get(explain)).with_state(Arc::new(self))
    }

    async fn explanations(&self, query: &str, pulls: &PullsView, now: Timestamp) -> Vec<Explanation> {
        let known = self.known();
        let is_latest = |pod: &PodRef| {
            let found = self.finder.pods.find(&pod.namespace, &pod.name);
            found.is_none_or(|found| found.reference().uid == pod.uid)
        };
        let (has_read, problems) = {
            let manifests = self.manifests.borrow();
            (manifests.ready, manifests.problems.clone())
        };
        let names: Vec<PodRef> = known.iter().map(|known| pod_ref(&known.pod)).collect();
        let named: Vec<PodName<'_>> =
            names.iter().map(|pod| PodName { namespace: &pod.namespace, name: &pod.name }).collect();
        let defined: HashSet<PodName<'_>> = known
            .iter()
            .zip(&named)
            .filter(|(known, _)| known.disposition != Disposition::Removed)
            .map(|(_, name)| *name)
            .collect();
        let matching = known.iter().zip(&names).zip(&named);
        let matching = matching.filter(|(_, name)| matches_pod_name(query, **name, &self.finder.node));
        // Of two pods of one name the one that is defined is explained, even while it waits for the other.
        let matching = matching.filter(|((known, pod), name)| match known.disposition {
            Disposition::Removed => !defined.contains(name) && is_latest(pod),
            Disposition::Undecided(_)
            | Disposition::Desired
            | Disposition::WaitingForPredecessor
            | Disposition::Rejected => true,
        });
        let mut explanations = Vec::new();
        for ((known, _), _) in matching {
            let log_ends = self.log_ends(known).await;
            explanations.push(self.explained(known, pulls, &problems, log_ends, now));
        }
        if explanations.is_empty() && !has_read {
            explanations.push(not_read_yet(query, self.runtime.problem().as_ref()));
        } else if explanations.is_empty() {
            let is_match = |pod: &PodRef| {
                matches_pod_name(
                    query,
                    PodName { namespace: &pod.namespace, name: &pod.name },
                    &self.finder.node,
                )
            };
            let existed = self.timeline.pods().iter().any(is_match);
            explanations.push(unknown(query, &named, &problems, existed, &self.finder.node));
        }
        explanations.sort_by(|a, b| a.pod.cmp(&b.pod));
        explanations
    }

    /// All pods that are defined, rejected, or still terminating.
    fn known(&self) -> Vec<KnownPod> {
        let (mut reported, mut rejected) = (HashMap::new(), HashMap::new());
        for (uid, entry) in self.finder.pods.all() {
            match entry {
                DirectoryEntry::Reported(entry) => drop(reported.insert(uid, entry)),
                DirectoryEntry::Rejected(pod) => drop(rejected.insert(uid, pod)),
            }
        }
        let admitted: HashSet<PodUid> =
            self.desired_pods.borrow().pods.iter().map(|pod| pod.reference.uid.clone()).collect();
        let awaited = self.awaited_grants.borrow().clone();
        let mut known: Vec<KnownPod> = Vec::new();
        let manifests: Vec<_> = self
            .manifests
            .borrow()
            .pods
            .iter()
            .map(|pod| (pod.pod.clone(), Some(pod.origin.clone())))
            .collect();
        let api: Vec<_> = self.api.borrow().pods.values().map(|pod| (pod.pod.clone(), None)).collect();
        for (pod, origin) in manifests.into_iter().chain(api) {
            let uid = pod_uid(&pod);
            if !rejected.contains_key(&uid) {
                let reported = reported.remove(&uid);
                let disposition = match reported.is_some() || admitted.contains(&uid) {
                    true => Disposition::Desired,
                    false => Disposition::Undecided(awaited.get(&uid).cloned()),
                };
                known.push(KnownPod { pod, disposition, reported, origin });
            }
        }
        known.extend(rejected.into_values().map(|rejected| KnownPod {
            pod: Arc::new(rejected.with_status()),
            disposition: Disposition::Rejected,
            reported: None,
            origin: None,
        }));
        for known in &mut known {
            let name = pod_ref(&known.pod).full_name();
            let has_predecessor =
                reported.values().any(|reported: &PodStatusEntry| reported.pod.reference.full_name() == name);
            if known.disposition == Disposition::Desired && known.reported.is_none() && has_predecessor {
                known.disposition = Disposition::WaitingForPredecessor;
            }
        }
        known.extend(reported.into_values().map(|reported| KnownPod {
            pod: reported.pod.object().clone(),
            disposition: Disposition::Removed,
            reported: Some(reported),
            origin: None,
        }));
        known
    }

    fn explained(
        &self,
        known: &KnownPod,
        pulls: &PullsView,
        problems: &[ManifestProblem],
        log_ends: BTreeMap<String, String>,
        now: Timestamp,
    ) -> Explanation {
        let pod = pod_ref(&known.pod);
        let doing = self.pulls.activities.of(&pod.uid);
        let observed = self.runtime.pleg.cache().get(&pod);
        let running = observed.iter().flat_map(|status| &status.containers);
        let running = running.filter(|c| c.state == ContainerState::Running).map(|c| c.name.to_string());
        let reported_status = known.reported.as_ref().map(|reported| &*reported.status);
        let name = pod.to_string();
        let archives = self.archives.iter().flat_map(ImageArchives::view);
        let archives = archives.map(|problem| (problem.file, problem.message)).collect::<Vec<_>>();
        let provider_failures = self.provider_failures(&known.pod);
        let mut of_this = problems.iter().filter(|problem| problem.pod.as_ref() == Some(&name));
        let own_status = known.pod.status.as_ref().filter(|_| known.disposition == Disposition::Rejected);
        let mut explanation = explained(&ExplainInput {
            pod: &known.pod,
            disposition: known.disposition.clone(),
            status: reported_status.or(own_status),
            terminating_since: known.reported.as_ref().and_then(|reported| reported.terminating_since),
            doing: doing.as_ref(),
            running: running.collect(),
            hung: self.hung_call(&pod, doing.as_ref()),
            pull: doing.as_ref().and_then(|doing| pulls.of(doing.activity.image()?)),
            origin: known.origin.as_ref(),
            problem: of_this
                .clone()
                .find(|problem| known.origin.as_ref() == Some(&problem.origin))
                .or(of_this.next()),
            node_problem: self.runtime.problem(),
            pressure: &self.host.pressure.borrow().clone(),
            shutdown: self.shutdown.borrow().since,
            failing_probes: self.failing_probes.of(&pod.uid),
            log_ends,
            provider_failures,
            preload_dir: self.archives.as_ref().map(|archives| &*archives.dir),
            archives: &archives,
            now,
        });
        let foreign = self.host.foreign.borrow();
        explanation.also.extend(foreign.as_ref().map(|foreign| format!("On this node {foreign}.")));
        drop(foreign);
        let copies = self.offline.served(&pod.uid, object_references(&AdmittedPod::new(known.pod.clone())));
        explanation.also.extend(stored_copies(&copies, now));
        explanation
            .also
            .extend(self.host.shims.borrow().as_ref().map(|shims| format!("On this node {shims}.")));
        explanation.also.extend(self.host.refused_limits().map(|limits| format!("On this node {limits}.")));
        explanation
    }

    /// The failing credential providers for the images of a pod.
    fn provider_failures(&self, pod: &Pod) -> BTreeMap<String, String> {
        let spec = PodView::from(pod).spec;
        let containers = spec.init_containers.iter().flatten().chain(&spec.containers);
        let of_volumes = spec.volumes.iter().flatten();
        let of_volumes = of_volumes.filter_map(|volume| volume.image.as_ref()?.reference.as_deref());
        let images = containers.filter_map(|container| container.image.as_deref()).chain(of_volumes);
        let failures = images.flat_map(|image| self.pulls.images.provider_failures(image));
        failures.map(|failure| (failure.provider, failure.error)).collect()
    }

    /// The longest hung call of a pod, else one that may block all pods.
    fn hung_call(&self, pod: &PodRef, doing: Option<&WorkerActivity>) -> Option<HungCall> {
        let now = Instant::now();
        let is_about = |call: &&Call| match &call.subject {
            CallSubject::Image(pulled) => {
                let image = doing.and_then(|doing| doing.activity.image());
                image.is_some_and(|image| pulled.starts_with(image))
            }
            CallSubject::Node => false,
            subject @ (CallSubject::Pod(_) | CallSubject::Sandbox(_) | CallSubject::Container(_)) => {
                self.runtime.pleg.cache().pod_of(subject).is_some_and(|of| of.uid == pod.uid)
            }
        };
        let hung = self.runtime.calls.hung(now);
        let own = hung.iter().find(is_about);
        let call = own.or_else(|| hung.iter().find(|call| call.subject == CallSubject::Node))?;
        Some(HungCall {
            call: call.operation.to_string(),
            subject: call.subject.to_string(),
            took: now.duration_since(call.since),
            is_of_node: own.is_none(),
        })
    }

    /// The last log line of the pod's failed containers without a termination message.
    async fn log_ends(&self, known: &KnownPod) -> BTreeMap<String, String> {
        let Some(reported) = &known.reported else { return BTreeMap::new() };
        let Ok(observed) = self.runtime.pleg.cache().get(&pod_ref(&known.pod)) else {
            return BTreeMap::new();
        };
        let mut logs: Vec<(String, PathBuf)> = Vec::new();
        for status in reported.status.container_statuses.iter().flatten() {
            let states = [&status.state, &status.last_state].into_iter().flatten();
            let Some(ended) = states.filter_map(|state| state.terminated.as_ref()).next() else { continue };
            let left_message = ended.message.as_deref().is_some_and(|message| !message.trim().is_empty());
            let id = ended.container_id.as_deref().and_then(|id| id.split_once("://")).map(|(_, id)| id);
            let seen = observed.containers.iter().find(|seen| Some(seen.id.as_str()) == id);
            if let Some(seen) = seen
                && ended.exit_code != 0
                && !left_message
                && !seen.log_path.is_empty()
            {
                logs.push((status.name.clone(), PathBuf::from(&seen.log_path)));
            }
        }
        let read = file_work(move || {
            let line = |(name, path): (String, PathBuf)| {
                // An unreadable log is ignored.
                let end = log_end(&path).unwrap_or_default();
                let last = end.lines().rev().find(|line| !line.trim().is_empty())?;
                Some((name, one_line(last.trim(), MAX_LINE)))
            };
            logs.into_iter().filter_map(line).collect()
        });
        read.await.unwrap_or_default()
    }
}
