//! The task: keeps mirrors as planned, one request at a time.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Node, Pod};
use kube::Client;
use kube::api::{DeleteParams, PostParams, Preconditions};
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::plan::{Action, Name, Owner, name_of, plan};
use crate::api::{ApiErrorKind, Objects, Wire, error_kind};
use crate::pod::{AdmittedPod, DesiredPods, PodEvents};
use crate::source::api::ApiState;
use crate::status::LifecycleSummary;
use crate::status::StatusCache;
use crate::telemetry::Changed;
use crate::types::{Backoff, BackoffPolicy, PodEvent, PodUid, WallClock, error_chain, sleep_until};

/// How long a request may take.
const DEADLINE: Duration = Duration::from_secs(30);

/// How long after a request its effect may take to show in the watch. Then it is asked for again.
const SHOWS_WITHIN: Duration = Duration::from_secs(10);

const RETRY: BackoffPolicy = BackoffPolicy {
    initial: Duration::from_millis(500),
    max: Duration::from_secs(60),
    reset_after: Duration::from_secs(300),
};

/// Upstream has no event for it: it logs each try.
const FAILED: &str = "FailedCreateMirrorPod";

/// What mirrors go by.
pub struct MirrorSources {
    /// The pods that are to run.
    pub desired_pods: watch::Receiver<DesiredPods>,
    /// What the API server shows.
    pub api: watch::Receiver<ApiState>,
    /// The Node, which mirrors belong to, once it is registered.
    pub node: watch::Receiver<Option<Arc<Node>>>,
    /// Which pods have ended; and where it is told that a mirror cannot be made.
    pub status_cache: StatusCache,
    /// Events of pods.
    pub events: PodEvents,
    /// The time of day.
    pub clock: WallClock,
}

/// The mirrors of this node, to be run by the app.
pub struct Mirrors {
    client: Client,
    sources: MirrorSources,
    /// When the mirror of a name may be looked at again.
    not_before: HashMap<Name, Instant>,
    failures: HashMap<Name, Failure>,
}

/// Why a mirror is not as it should be.
struct Failure {
    retry: Backoff<Instant>,
    /// What was told.
    told: Changed<String>,
}

impl Mirrors {
    /// Mirrors of the static pods that `sources` name.
    pub fn new(client: Client, sources: MirrorSources) -> Self {
        Self { client, sources, not_before: HashMap::new(), failures: HashMap::new() }
    }

    /// Runs until cancelled. Mirrors stay.
    pub async fn run(mut self, cancel: CancellationToken) {
        let mut status_cache = self.sources.status_cache.changes();
        loop {
            status_cache.mark_unchanged();
            let Pass { due, waits_for_an_end } = self.pass().await;
            let sources = &mut self.sources;
            tokio::select! {
                // Cancel-safe: waits for a token.
                () = cancel.cancelled() => return,
                // Cancel-safe: a watch marks its value seen only when `changed` returns.
                Ok(()) = sources.desired_pods.changed() => {}
                // Cancel-safe: as above.
                Ok(()) = sources.api.changed() => {}
                // Cancel-safe: as above.
                Ok(()) = sources.node.changed() => {}
                // Cancel-safe: as above. Statuses change all the time; that matters only to a mirror whose pod is ending.
                Ok(()) = status_cache.changed(), if waits_for_an_end => {}
                // Cancel-safe: a sleep.
                () = sleep_until(due) => {}
            }
        }
    }

    /// Does what is to be done now.
    async fn pass(&mut self) -> Pass {
        let desired_pods = self.sources.desired_pods.borrow_and_update().clone();
        let api = self.sources.api.borrow_and_update().clone();
        let owner = self.sources.node.borrow_and_update().as_deref().map(Owner::of);
        let Some(owner) = owner.filter(|_| api.ready) else { return Pass::default() };
        let statics: Vec<Arc<AdmittedPod>> =
            desired_pods.pods.iter().filter(|pod| pod.is_static).cloned().collect();
        let told = self.sources.status_cache.all().into_iter();
        let alive: HashSet<PodUid> = told
            .filter(|told| told.lifecycle != LifecycleSummary::Terminated)
            .map(|told| told.pod.reference.uid.clone())
            .collect();
        let actions = plan(&statics, &api.mirrors, &owner, &alive, desired_pods.ready);
        self.not_before.retain(|name, _| actions.contains_key(name));
        self.failures.retain(|name, _| actions.contains_key(name));
        let waits_for_an_end = actions.values().any(|action| *action == Action::Wait);
        for (name, action) in actions {
            let now = Instant::now();
            let is_early = self.not_before.get(&name).is_some_and(|moment| *moment > now);
            if is_early || action == Action::Wait {
                continue;
            }
            let of = statics.iter().find(|pod| name_of(pod) == name);
            let pause = match self.perform(&name, of, action).await {
                Ok(()) => SHOWS_WITHIN,
                Err(pause) => pause,
            };
            self.not_before.insert(name, Instant::now() + pause);
        }
        Pass { due: self.not_before.values().min().copied(), waits_for_an_end }
    }

    /// Makes one request, about the mirror of this static pod if there is one. Answers how long to wait if it failed.
    async fn perform(
        &mut self,
        name: &Name,
        of: Option<&Arc<AdmittedPod>>,
        action: Action,
    ) -> Result<(), Duration> {
        let pods = Objects::<Pod>::namespaced(self.client.clone(), &name.0);
        let creates = matches!(action, Action::Create(_));
        let asked = async {
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
        let (pause, error) = match tokio::time::timeout(DEADLINE, asked).await {
            Ok(Ok(())) => {
                self.failures.remove(name);
                return Ok(());
            }
            Ok(Err(error)) => match error_kind(&error) {
                // The watch is behind: it will show. If it does not, it is no mirror of ours that has the name.
                ApiErrorKind::AlreadyExists if creates => {
                    let known = self.failures.contains_key(name);
                    let text = "a pod of this name that is no mirror of it is in the cluster; delete that one, or rename this one";
                    if !known {
                        let retry = Backoff::next(None, &RETRY, Instant::now(), Instant::now());
                        self.failures.insert(name.clone(), Failure { retry, told: Changed::new() });
                        return Ok(());
                    }
                    (Some(SHOWS_WITHIN), text.to_owned())
                }
                ApiErrorKind::NotFound if creates => (None, error_chain(&error)),
                ApiErrorKind::NotFound | ApiErrorKind::AlreadyExists | ApiErrorKind::Conflict => {
                    return Ok(());
                }
                ApiErrorKind::TooMany(pause) => (pause, error_chain(&error)),
                ApiErrorKind::Forbidden | ApiErrorKind::Invalid | ApiErrorKind::Unavailable => {
                    (None, error_chain(&error))
                }
            },
            Err(_elapsed) => (None, "the API server did not answer in time".to_owned()),
        };
        Err(self.failed(name, of.filter(|_| creates), pause, error))
    }

    /// Takes in that a request failed, and says so if that is news. Answers how long to wait.
    fn failed(
        &mut self,
        name: &Name,
        of: Option<&Arc<AdmittedPod>>,
        pause: Option<Duration>,
        error: String,
    ) -> Duration {
        let now = Instant::now();
        let before = self.failures.remove(name);
        let retry = Backoff::next(before.as_ref().map(|before| before.retry), &RETRY, now, now);
        let mut told = before.map(|before| before.told).unwrap_or_default();
        if told.see(error.clone()) {
            let pod = format!("{}/{}", name.0, name.1);
            tracing::warn!(pod, error, "cannot keep the mirror of a static pod; trying again");
        }
        self.failures.insert(name.clone(), Failure { retry, told });
        if let Some(of) = of {
            let event = PodEvent::warning(FAILED, format!("Failed to create the mirror pod: {error}"));
            let reference = &of.reference;
            let sources = &self.sources;
            sources.status_cache.timeline().event(reference, None, &event, sources.clock.now());
            (sources.events)(reference, None, &event);
        }
        pause.unwrap_or(retry.delay)
    }
}

/// What a pass leaves to be done.
#[derive(Default)]
struct Pass {
    /// When to look again though nothing changed.
    due: Option<Instant>,
    /// Whether a mirror is kept until its pod has ended.
    waits_for_an_end: bool,
}
