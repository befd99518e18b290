//! The task: carries out the plan, one request at a time.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use hostlet_base::{Backoff, BackoffPolicy, PodEvent, PodUid, WallClock, error_chain, sleep_until};
use hostlet_observe::status::timeline::Timeline;
use hostlet_observe::status::{LifecycleSummary, StatusCache};
use hostlet_pod::{AdmittedPod, ApiState, DesiredPods, PodEvents};
use hostlet_telemetry::Changed;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::Client;
use kube::api::{DeleteParams, PostParams, Preconditions};
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::plan::{Action, Name, Owner, name_of, plan};
use crate::api::{ApiErrorKind, TypedApi, Wire, error_kind, pause};

const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);

/// How long the watch may take to show a request's effect before the request is repeated.
const WATCH_LAG: Duration = Duration::from_secs(10);

const RETRY: BackoffPolicy = BackoffPolicy {
    initial: Duration::from_millis(500),
    max: Duration::from_secs(60),
    reset_after: Duration::from_secs(300),
};

/// Reason of the event for a failed request. Upstream has none: it logs each attempt.
const FAILED: &str = "FailedCreateMirrorPod";

/// What mirror pods follow, and where failures are reported.
pub struct MirrorDeps {
    /// The admitted pods, of which static ones get mirror pods.
    pub desired_pods: watch::Receiver<DesiredPods>,
    /// The pods on the API server.
    pub api: watch::Receiver<ApiState>,
    /// The Node, which owns the mirror pods, once registered.
    pub node: watch::Receiver<Option<Arc<Node>>>,
    /// Lifecycles of the pods.
    pub status_cache: StatusCache,
    /// Receives failures.
    pub timeline: Timeline,
    /// Recorder of pod events.
    pub events: PodEvents,
    /// For times that others see; deadlines use tokio's clock.
    pub clock: WallClock,
}

/// The mirror pods of this node; run by the app.
pub struct Mirrors {
    client: Client,
    deps: MirrorDeps,
    /// When the mirror of a name may be handled again.
    not_before: HashMap<Name, Instant>,
    failures: HashMap<Name, Failure>,
}

/// A failure to create or delete a mirror pod.
struct Failure {
    retry: Backoff<Instant>,
    /// The error reported last.
    reported: Changed<String>,
}

impl Mirrors {
    /// Creates the task for the static pods in `deps`.
    pub fn new(client: Client, deps: MirrorDeps) -> Self {
        Self { client, deps, not_before: HashMap::new(), failures: HashMap::new() }
    }

    /// Runs until cancelled. Mirror pods remain.
    pub async fn run(mut self, cancel: CancellationToken) {
        let mut status_cache = self.deps.status_cache.changes();
        loop {
            status_cache.mark_unchanged();
            let Pass { due, waits_for_termination } = self.pass().await;
            let deps = &mut self.deps;
            tokio::select! {
                // Cancel-safe: waits for a token.
                () = cancel.cancelled() => return,
                // Cancel-safe: a watch marks its value seen only when `changed` returns.
                Ok(()) = deps.desired_pods.changed() => {}
                // Cancel-safe: as above.
                Ok(()) = deps.api.changed() => {}
                // Cancel-safe: as above.
                Ok(()) = deps.node.changed() => {}
                // Cancel-safe: as above. Statuses change often; that matters only to a mirror of a terminating pod.
                Ok(()) = status_cache.changed(), if waits_for_termination => {}
                // Cancel-safe: a sleep.
                () = sleep_until(due) => {}
            }
        }
    }

    /// Carries out the actions that are due.
    async fn pass(&mut self) -> Pass {
        let desired_pods = self.deps.desired_pods.borrow_and_update().clone();
        let api = self.deps.api.borrow_and_update().clone();
        let owner = self.deps.node.borrow_and_update().as_deref().map(Owner::of);
        let Some(owner) = owner.filter(|_| api.ready) else { return Pass::default() };
        let statics: Vec<Arc<AdmittedPod>> =
            desired_pods.pods.iter().filter(|pod| pod.is_static).cloned().collect();
        let reported = self.deps.status_cache.all().into_iter();
        let alive: HashSet<PodUid> = reported
            .filter(|pod| pod.lifecycle != LifecycleSummary::Terminated)
            .map(|pod| pod.pod.reference.uid.clone())
            .collect();
        let actions = plan(&statics, &api.mirrors, &owner, &alive, desired_pods.ready);
        self.not_before.retain(|name, _| actions.contains_key(name));
        self.failures.retain(|name, _| actions.contains_key(name));
        let waits_for_termination = actions.values().any(|action| *action == Action::Wait);
        for (name, action) in actions {
            let now = Instant::now();
            let is_early = self.not_before.get(&name).is_some_and(|moment| *moment > now);
            if is_early || action == Action::Wait {
                continue;
            }
            let of = statics.iter().find(|pod| name_of(pod) == name);
            let wait = match self.perform(&name, of, action).await {
                Ok(()) => WATCH_LAG,
                Err(wait) => wait,
            };
            self.not_before.insert(name, Instant::now() + wait);
        }
        Pass { due: self.not_before.values().min().copied(), waits_for_termination }
    }

    /// Makes one request, for this static pod if there is one. Returns the pause after a failure.
    async fn perform(
        &mut self,
        name: &Name,
        of: Option<&Arc<AdmittedPod>>,
        action: Action,
    ) -> Result<(), Duration> {
        let pods = TypedApi::<Pod>::namespaced(self.client.clone(), &name.0);
        let creates = matches!(action, Action::Create(_));
        let request = async {
            match action {
                Action::Create(mirror) => pods.create(&PostParams::default(), &Wire(*mirror)).await.map(drop),
                Action::Delete(uid) => {
                    let only_this = Preconditions { uid: Some(uid), resource_version: None };
                    let at_once = DeleteParams::default().grace_period(0).preconditions(only_this);
                    pods.delete(&name.1, &at_once).await.map(drop)
                }
                Action::Wait => Ok(()),
            }
        };
        let (retry_after, error) = match tokio::time::timeout(REQUEST_TIMEOUT, request).await {
            Ok(Ok(())) => {
                self.failures.remove(name);
                return Ok(());
            }
            Ok(Err(error)) => match error_kind(&error) {
                // The watch lags and will show it. Otherwise the name is taken by a pod that is not our mirror.
                ApiErrorKind::AlreadyExists if creates => {
                    let known = self.failures.contains_key(name);
                    let text = "the cluster has a pod of this name that is not its mirror pod; delete that pod, or rename the static pod";
                    if !known {
                        let retry = Backoff::next(None, &RETRY, Instant::now(), Instant::now());
                        self.failures.insert(name.clone(), Failure { retry, reported: Changed::new() });
                        return Ok(());
                    }
                    (WATCH_LAG, text.to_owned())
                }
                ApiErrorKind::NotFound if creates => (Duration::ZERO, error_chain(&error)),
                ApiErrorKind::NotFound | ApiErrorKind::AlreadyExists | ApiErrorKind::Conflict => {
                    return Ok(());
                }
                kind @ (ApiErrorKind::TooMany(_)
                | ApiErrorKind::Forbidden
                | ApiErrorKind::Invalid
                | ApiErrorKind::Unavailable) => (kind.retry_after(), error_chain(&error)),
            },
            Err(_elapsed) => (Duration::ZERO, "the API server did not answer in time".to_owned()),
        };
        Err(self.failed(name, of.filter(|_| creates), retry_after, error))
    }

    /// Records a failed request and reports it if the error is new. Returns the pause.
    fn failed(
        &mut self,
        name: &Name,
        of: Option<&Arc<AdmittedPod>>,
        retry_after: Duration,
        error: String,
    ) -> Duration {
        let now = Instant::now();
        let before = self.failures.remove(name);
        let retry = Backoff::next(before.as_ref().map(|before| before.retry), &RETRY, now, now);
        let mut reported = before.map(|before| before.reported).unwrap_or_default();
        if reported.see(error.clone()) {
            let pod = format!("{}/{}", name.0, name.1);
            tracing::warn!(pod, error, "cannot update the mirror pod of a static pod; retrying");
        }
        self.failures.insert(name.clone(), Failure { retry, reported });
        if let Some(of) = of {
            let event = PodEvent::warning(FAILED, format!("Failed to create the mirror pod: {error}"));
            let reference = &of.reference;
            let deps = &self.deps;
            deps.timeline.event(reference, None, &event, deps.clock.now());
            (deps.events)(reference, None, &event);
        }
        pause(retry.delay, retry_after, rand::random())
    }
}

/// Work left after a pass.
#[derive(Default)]
struct Pass {
    /// When to run again without a change.
    due: Option<Instant>,
    /// Whether a mirror is kept until its pod has terminated.
    waits_for_termination: bool,
}
