//! The task: keeps mirrors as planned, one request at a time.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Node, Pod};
use kube::Client;
use kube::api::{DeleteParams, PostParams, Preconditions};
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::plan::{Action, Name, Owner, plan};
use crate::api::{Objects, Refusal, Wire, refusal};
use crate::pod::is_static;
use crate::pod::source::api::ApiState;
use crate::pod::table::WantedPods;
use crate::types::{Backoff, BackoffPolicy, error_chain};

/// How long a request may take.
const DEADLINE: Duration = Duration::from_secs(30);

/// How long after a request its effect may take to show in the watch. Then it is asked for again.
const SHOWS_WITHIN: Duration = Duration::from_secs(10);

const RETRY: BackoffPolicy = BackoffPolicy {
    initial: Duration::from_millis(500),
    max: Duration::from_secs(60),
    reset_after: Duration::from_secs(300),
};

/// The mirrors of this node, to be run by the app.
pub struct Mirrors {
    client: Client,
    wanted: watch::Receiver<WantedPods>,
    api: watch::Receiver<ApiState>,
    node: watch::Receiver<Option<Arc<Node>>>,
    /// When the mirror of a name may be looked at again.
    not_before: HashMap<Name, Instant>,
    failures: HashMap<Name, Backoff<Instant>>,
}

impl Mirrors {
    /// Mirrors of the static pods in `wanted`, beside what `api` shows, belonging to the Node (`node`) once it is registered.
    pub fn new(
        client: Client,
        wanted: watch::Receiver<WantedPods>,
        api: watch::Receiver<ApiState>,
        node: watch::Receiver<Option<Arc<Node>>>,
    ) -> Self {
        Self { client, wanted, api, node, not_before: HashMap::new(), failures: HashMap::new() }
    }

    /// Runs until cancelled. Mirrors stay.
    pub async fn run(mut self, cancel: CancellationToken) {
        loop {
            let due = self.pass().await;
            tokio::select! {
                // Cancel-safe: waiting for a token takes nothing.
                () = cancel.cancelled() => return,
                // Cancel-safe: a watch marks its value seen only when `changed` returns.
                Ok(()) = self.wanted.changed() => {}
                // Cancel-safe: as above.
                Ok(()) = self.api.changed() => {}
                // Cancel-safe: as above.
                Ok(()) = self.node.changed() => {}
                // Cancel-safe: a sleep to a fixed moment takes nothing.
                () = sleep_until(due) => {}
            }
        }
    }

    /// Does what is to be done now. Answers when to look again though nothing changed.
    async fn pass(&mut self) -> Option<Instant> {
        let wanted = self.wanted.borrow_and_update().clone();
        let api = self.api.borrow_and_update().clone();
        let owner = Owner::of(self.node.borrow_and_update().as_deref()?);
        if !api.ready {
            return None;
        }
        let statics: Vec<Arc<Pod>> = wanted.pods.iter().filter(|pod| is_static(pod)).cloned().collect();
        let actions = plan(&statics, &api.mirrors, &owner, wanted.ready);
        self.not_before.retain(|name, _| actions.contains_key(name));
        self.failures.retain(|name, _| actions.contains_key(name));
        for (name, action) in actions {
            let now = Instant::now();
            if self.not_before.get(&name).is_some_and(|moment| *moment > now) {
                continue;
            }
            let pause = match self.perform(&name, action).await {
                Ok(()) => SHOWS_WITHIN,
                Err(pause) => pause,
            };
            self.not_before.insert(name, Instant::now() + pause);
        }
        self.not_before.values().min().copied()
    }

    /// Makes one request. Answers how long to wait if it failed.
    async fn perform(&mut self, (namespace, name): &Name, action: Action) -> Result<(), Duration> {
        let pods = Objects::<Pod>::namespaced(self.client.clone(), namespace);
        let pod = format!("{namespace}/{name}");
        let asked = async {
            match action {
                Action::Create(mirror) => pods.create(&PostParams::default(), &Wire(*mirror)).await.map(drop),
                Action::Delete(uid) => {
                    let only_this = Preconditions { uid: Some(uid), resource_version: None };
                    let at_once = DeleteParams::default().grace_period(0).preconditions(only_this);
                    pods.delete(name, &at_once).await.map(drop)
                }
            }
        };
        let key = (namespace.clone(), name.clone());
        let (pause, error) = match tokio::time::timeout(DEADLINE, asked).await {
            Ok(Ok(())) => {
                self.failures.remove(&key);
                return Ok(());
            }
            Ok(Err(error)) => match refusal(&error) {
                // The watch is behind: it will show.
                Refusal::NotFound | Refusal::AlreadyExists | Refusal::Conflict => return Ok(()),
                Refusal::TooMany(pause) => (pause, error_chain(&error)),
                Refusal::Forbidden | Refusal::Invalid | Refusal::Unavailable => (None, error_chain(&error)),
            },
            Err(_elapsed) => (None, "the API server did not answer in time".to_owned()),
        };
        let now = Instant::now();
        let next = Backoff::next(self.failures.get(&key).copied(), &RETRY, now, now);
        self.failures.insert(key, next);
        tracing::warn!(pod, error, "cannot keep the mirror of a static pod; trying again");
        Err(pause.unwrap_or(next.delay))
    }
}

async fn sleep_until(moment: Option<Instant>) {
    match moment {
        Some(moment) => tokio::time::sleep_until(moment).await,
        None => std::future::pending().await,
    }
}
