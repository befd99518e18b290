//! Tracks calls in progress, so that hanging calls can be reported: method, subject and start.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use hostlet_base::{ContainerId, PodRef, QuietPeriod, SandboxId};
use hostlet_telemetry::Metrics;
use parking_lot::{Mutex, MutexGuard};
use tokio::time::Instant;

use super::Operation;
use super::metrics::CallMetrics;

/// What a call is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CallSubject {
    /// The runtime as a whole.
    Node,
    /// One pod, before it has a sandbox.
    Pod(PodRef),
    /// One sandbox, by the runtime's ID.
    Sandbox(SandboxId),
    /// One container, by the runtime's ID.
    Container(ContainerId),
    /// One image, as the caller names it.
    Image(String),
}

impl fmt::Display for CallSubject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Node => f.write_str("this node"),
            Self::Pod(pod) => write!(f, "pod {pod}"),
            Self::Sandbox(id) => write!(f, "sandbox {id}"),
            Self::Container(id) => write!(f, "container {id}"),
            Self::Image(image) => write!(f, "image {image}"),
        }
    }
}

/// A call in progress.
#[derive(Clone, Debug)]
pub struct Call {
    /// The method of the CRI that was called.
    pub operation: Operation,
    /// What the call is about.
    pub subject: CallSubject,
    /// When the call began.
    pub since: Instant,
    /// Duration after which it counts as hung.
    pub patience: Duration,
}

/// The calls in progress of one client. Cheap to clone; clones share one list.
#[derive(Clone, Default)]
pub struct Calls {
    state: Arc<Mutex<State>>,
    quiet_period: QuietPeriod,
    metrics: CallMetrics,
}

#[derive(Default)]
struct State {
    next: u64,
    calls: HashMap<u64, Call>,
}

/// Keeps a call in the list until dropped.
pub(super) struct UnderWay {
    calls: Calls,
    key: u64,
}

impl Calls {
    fn lock(&self) -> MutexGuard<'_, State> {
        // Every statement under the lock leaves the list consistent.
        self.state.lock()
    }

    pub(super) fn begin(&self, operation: Operation, subject: CallSubject, patience: Duration) -> UnderWay {
        if operation.is_work() {
            self.quiet_period.note_work();
        }
        let mut state = self.lock();
        let key = state.next;
        state.next += 1;
        state.calls.insert(key, Call { operation, subject, since: Instant::now(), patience });
        UnderWay { calls: self.clone(), key }
    }

    /// Registers metrics of the calls.
    pub fn register(&self, metrics: &Metrics) {
        self.metrics.register(metrics);
        let calls = self.clone();
        metrics.register_gauge(
            "hostlet_runtime_calls_hung",
            "Number of hung calls to the container runtime.",
            move || vec![(Vec::new(), calls.hung(Instant::now()).len() as u64)],
        );
    }

    /// An empty list that counts its calls in these metrics.
    pub(super) fn counted_with(&self) -> Self {
        Self { metrics: self.metrics.clone(), ..Self::default() }
    }

    /// Records a finished call.
    pub(super) fn ended(&self, operation: Operation, since: Instant, has_failed: bool) {
        self.metrics.ended(operation, since.elapsed(), has_failed);
    }

    /// The periods without starts and stops.
    pub fn quiet_period(&self) -> QuietPeriod {
        self.quiet_period.clone()
    }

    /// The hung calls, longest first.
    pub fn hung(&self, now: Instant) -> Vec<Call> {
        let state = self.lock();
        let overdue = |call: &&Call| now.duration_since(call.since) > call.patience;
        let mut hung: Vec<Call> = state.calls.values().filter(overdue).cloned().collect();
        hung.sort_by_key(|call| call.since);
        hung
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        let call = self.calls.lock().calls.remove(&self.key);
        if call.is_some_and(|call| call.operation.is_work()) {
            self.calls.quiet_period.note_work();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_call_counts_as_hung_once_overdue_until_it_finishes() {
        let calls = Calls::default();
        let slow = calls.begin(
            Operation::StopContainer,
            CallSubject::Container("c".into()),
            Duration::from_secs(40),
        );
        tokio::time::advance(Duration::from_secs(11)).await;
        let _other = calls.begin(Operation::ListSandboxes, CallSubject::Node, Duration::from_secs(10));
        assert!(calls.hung(Instant::now()).is_empty());
        tokio::time::advance(Duration::from_secs(30)).await;
        let hung = calls.hung(Instant::now());
        assert_eq!(hung.len(), 2);
        assert_eq!(hung[0].subject.to_string(), "container c");
        drop(slow);
        assert_eq!(calls.hung(Instant::now())[0].operation, Operation::ListSandboxes);
    }
}
