//! The task that reads the kernel's log: one descriptor, and no work while the kernel logs nothing. A restart of the daemon continues where
//! the last one stopped; after a reboot it begins with the first message of the boot. Decides nothing: `problems` and `limit` do.

use std::convert::Infallible;
use std::io;
use std::path::PathBuf;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use hostlet_base::node::NodeEvents;
use hostlet_host::{KernelLog, KernelRecord};
use hostlet_store::Store;
use hostlet_telemetry::{Changed, Metrics};
use k8s_openapi::api::core::v1::Node;
use tokio::sync::watch;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use super::conditions::{KernelCondition, KernelConditions, KernelFinding};
use super::limit::EventLimit;
use super::metrics::KernelCounts;
use super::problems::{KernelProblem, KernelProblems};
use super::saved::SavedLog;

/// How often a log is tried that cannot be read. That hardly ever changes while the daemon runs.
const RETRY: Duration = Duration::from_secs(60);

/// What the observer needs.
pub struct KernelObserverDeps {
    /// `/dev/kmsg`, except in tests.
    pub log: PathBuf,
    /// The ID of this boot of the host, in which records are numbered.
    pub boot_id: String,
    /// Whether the Node has conditions (`kernelConditions`).
    pub has_conditions: bool,
    /// Keeps the position in the log.
    pub store: Store,
    /// Receives the events.
    pub events: NodeEvents,
    /// The conditions, published when they change.
    pub conditions: watch::Sender<KernelConditions>,
    /// The Node on the API server, if there is one.
    pub node: watch::Receiver<Option<Arc<Node>>>,
}

/// Observes the kernel's log.
pub struct KernelObserver {
    deps: KernelObserverDeps,
    open: OpenRecords,
    problems: KernelProblems,
    limit: EventLimit,
    counts: Arc<KernelCounts>,
    saved: SavedLog,
    extent: Extent,
    /// The number of the next record, if this daemon has read one.
    next: Option<u64>,
}

/// Which records of the log are news when it is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Extent {
    /// None: hostlet starts for the first time on this host, so that they may be from long ago. What lasts is true anyway.
    History,
    /// Those that were not reported yet.
    News,
}

/// The records of a log.
#[async_trait]
pub(super) trait Records: Send + Sync {
    /// [`KernelLog::try_next`].
    fn try_next(&self) -> io::Result<Option<KernelRecord>>;
    /// [`KernelLog::next`].
    async fn next(&self) -> io::Result<KernelRecord>;
}

/// Opens a log at its oldest record.
pub(super) type OpenRecords = Box<dyn Fn() -> io::Result<Box<dyn Records>> + Send + Sync>;

#[async_trait]
impl Records for KernelLog {
    fn try_next(&self) -> io::Result<Option<KernelRecord>> {
        self.try_next()
    }

    async fn next(&self) -> io::Result<KernelRecord> {
        self.next().await
    }
}

impl KernelObserver {
    /// The observer of this host's log.
    pub fn new(deps: KernelObserverDeps) -> Self {
        let log = deps.log.clone();
        Self::with_records(deps, Box::new(move || Ok(Box::new(KernelLog::open(&log)?))))
    }

    /// The same with another log.
    pub(super) fn with_records(deps: KernelObserverDeps, open: OpenRecords) -> Self {
        let (saved, extent) = match SavedLog::read(&deps.store) {
            None => (SavedLog { boot_id: deps.boot_id.clone(), ..SavedLog::default() }, Extent::History),
            Some(saved) if saved.boot_id == deps.boot_id => (saved, Extent::News),
            Some(SavedLog { has_conditions, .. }) => {
                let boot_id = deps.boot_id.clone();
                (SavedLog { boot_id, has_conditions, ..SavedLog::default() }, Extent::News)
            }
        };
        Self {
            deps,
            open,
            problems: KernelProblems::default(),
            limit: EventLimit::default(),
            counts: Arc::default(),
            saved,
            extent,
            next: None,
        }
    }

    /// Registers the metrics.
    pub fn register(&self, metrics: &Metrics) {
        self.counts.register(metrics);
    }

    /// Observes until cancelled.
    pub async fn run(mut self, cancel: CancellationToken) {
        tokio::select! {
            // Cancel-safe: waits for a token.
            () = cancel.cancelled() => {}
            // Cancel-safe: it only reads; what it found is in the store.
            never = self.work() => match never {},
        }
    }

    async fn work(&mut self) -> Infallible {
        let mut last_error = Changed::new();
        loop {
            let Err(error) = self.observe().await;
            self.counts.set_read(false);
            self.publish(false);
            if last_error.see(error.to_string()) {
                let log = self.deps.log.display();
                tracing::warn!(
                    %error,
                    "cannot read {log}, so nothing will report problems of the kernel: that the host is out of memory, or that a \
                     disk fails. It takes CAP_SYSLOG where kernel.dmesg_restrict is set, and the host's device in a container"
                );
            }
            self.until(sleep(RETRY)).await;
        }
    }

    /// Reads until the log cannot be read.
    async fn observe(&mut self) -> io::Result<Infallible> {
        let log = (self.open)()?;
        self.problems.restart();
        while let Some(record) = log.try_next()? {
            self.take(&record);
            // The log of a long day is to delay nothing else.
            tokio::task::coop::consume_budget().await;
        }
        if self.extent == Extent::History {
            self.extent = Extent::News;
            self.saved.reported_until = self.next.unwrap_or_default();
        }
        self.saved.write(&self.deps.store);
        self.counts.set_read(true);
        self.publish(true);
        loop {
            let record = self.until(log.next()).await?;
            if self.take(&record) {
                self.publish(true);
            }
        }
    }

    /// Takes a record, and returns whether it is a problem that was not reported yet.
    fn take(&mut self, record: &KernelRecord) -> bool {
        if let Some(next) = self.next {
            self.counts.overwritten(record.sequence.saturating_sub(next));
        }
        let following = record.sequence.saturating_add(1);
        self.next = Some(self.next.map_or(following, |next| next.max(following)));
        if record.sequence < self.saved.reported_until {
            return false;
        }
        let Some(problem) = self.problems.read(&record.message) else { return false };
        if self.extent == Extent::News {
            self.report(&problem);
        }
        if let Some(condition) = problem.condition {
            // The first one is the cause; those after it are often its consequences.
            self.saved
                .findings
                .entry(condition)
                .or_insert(KernelFinding { reason: problem.reason.to_owned(), message: problem.message });
        }
        self.saved.reported_until = following;
        self.saved.write(&self.deps.store);
        true
    }

    fn report(&mut self, problem: &KernelProblem) {
        self.counts.problem(problem.reason);
        if self.limit.permits(problem.reason, Instant::now()) {
            tracing::warn!(reason = problem.reason, "the kernel reports: {}", problem.message);
            (self.deps.events)(problem.event());
        }
    }

    /// Publishes the conditions. They are the Node's only as long as somebody observes them.
    fn publish(&mut self, is_observed: bool) {
        self.counts.set_holding(self.saved.findings.keys().copied());
        let conditions = if self.deps.has_conditions && is_observed {
            self.saved.has_conditions = true;
            self.saved.write(&self.deps.store);
            KernelConditions::Reported(self.saved.findings.clone())
        } else if self.saved.has_conditions {
            KernelConditions::Withdrawn
        } else {
            KernelConditions::NotOurs
        };
        self.deps.conditions.send_if_modified(|published| {
            let is_changed = *published != conditions;
            *published = conditions;
            is_changed
        });
    }

    /// Waits. Meanwhile, forgets conditions that are no longer asked for once the Node has none of them: others may set them then.
    async fn until<T>(&mut self, wait: impl Future<Output = T>) -> T {
        let mut wait = pin!(wait);
        loop {
            let is_leaving = !self.deps.has_conditions && self.saved.has_conditions;
            tokio::select! {
                // Cancel-safe: pinned outside of the loop.
                waited = &mut wait => return waited,
                // Cancel-safe: a watch.
                () = removed(&mut self.deps.node), if is_leaving => {
                    self.saved.has_conditions = false;
                    self.saved.write(&self.deps.store);
                    self.publish(false);
                }
            }
        }
    }
}

/// Waits until the Node has none of the conditions; forever if nobody reads the Node any more.
async fn removed(node: &mut watch::Receiver<Option<Arc<Node>>>) {
    let has_none = |node: &Option<Arc<Node>>| {
        let status = node.as_ref().map(|node| node.status.as_ref());
        let is_kernels = |name: &str| KernelCondition::ALL.iter().any(|condition| condition.name() == name);
        status.is_some_and(|status| {
            let conditions = status.and_then(|status| status.conditions.as_ref());
            !conditions.into_iter().flatten().any(|condition| is_kernels(&condition.type_))
        })
    };
    if node.wait_for(has_none).await.is_err() {
        std::future::pending().await
    }
}
