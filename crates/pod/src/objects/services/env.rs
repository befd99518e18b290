//! The handle that gives pods the variables of the cluster's Services.

use std::time::Duration;

use hostlet_base::watching;
use tokio::sync::watch;
use tokio::time::{Instant, timeout_at};

use super::known::{KnownServices, ServiceVariables};

/// How long after start-up containers wait for the first list before the missing variables are an error.
const FIRST_LIST_TIMEOUT: Duration = Duration::from_secs(10);

/// The known Services. Clones share them.
#[derive(Clone, Debug)]
pub struct ServiceEnv {
    known: watch::Receiver<KnownServices>,
    /// Deadline of the wait for the first list.
    deadline: Instant,
}

impl ServiceEnv {
    /// The Services as they become known. Until the first list they are those that an earlier daemon knew.
    pub fn new(known: watch::Receiver<KnownServices>) -> Self {
        Self { known, deadline: Instant::now() + FIRST_LIST_TIMEOUT }
    }

    /// The Services of a standalone host.
    pub fn none() -> Self {
        let known = watch::Sender::new(KnownServices::none()).subscribe();
        Self { known, deadline: Instant::now() }
    }

    /// The variables for a pod in `namespace`, including the Services there with `links`; `None` before the first list.
    pub fn variables(&self, namespace: &str, links: bool) -> Option<ServiceVariables> {
        let known = self.known.borrow();
        known.is_listed().then(|| known.variables(namespace, links))
    }

    /// Whether the Services were listed.
    pub fn is_listed(&self) -> bool {
        self.known.borrow().is_listed()
    }

    /// Waits for the first list. Cancel-safe.
    pub async fn listed(&self) {
        watching::becomes(&mut self.known.clone(), KnownServices::is_listed).await;
    }

    /// Waits for the first list, up to the deadline. Cancel-safe.
    pub async fn first_answer(&self) {
        // The caller reports what is still unknown.
        let _ = timeout_at(self.deadline, self.listed()).await;
    }
}
