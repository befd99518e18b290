//! The observer on a log that a test writes, in paused time.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use hostlet_base::node::NodeEvent;
use hostlet_host::KernelRecord;
use hostlet_store::Store;
use hostlet_telemetry::Metrics;
use k8s_openapi::api::core::v1::{Node, NodeCondition, NodeStatus};
use parking_lot::Mutex;
use tokio::sync::{Notify, watch};
use tokio::task::JoinHandle;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::conditions::{KernelCondition, KernelConditions};
use super::observer::{KernelObserver, KernelObserverDeps, Records};

const OOPS: &str = "BUG: kernel NULL pointer dereference, address: 0000000000000008";
const EXT4: &str =
    "EXT4-fs error (device sda1): ext4_lookup:1785: inode #131074: comm ls: deleted inode referenced: 131081";
const READ_ONLY: &str = "EXT4-fs (sda1): Remounting filesystem read-only";
const OTHER: &str = "cni0: port 96(veth3c457fbc) entered disabled state";

/// The ring buffer of a kernel.
#[derive(Clone, Default)]
struct Kernel(Arc<Shared>);

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    changed: Notify,
}

#[derive(Default)]
struct State {
    records: Vec<KernelRecord>,
    next: u64,
    /// Whether the log can be read.
    is_closed: bool,
    opened: usize,
}

impl Kernel {
    fn log(&self, message: &str) {
        let mut state = self.0.state.lock();
        let sequence = state.next;
        state.next += 1;
        state.records.push(KernelRecord { sequence, message: message.to_owned() });
        self.0.changed.notify_one();
    }

    fn overwrite(&self) {
        self.0.state.lock().records.clear();
    }

    fn reboot(&self) {
        let mut state = self.0.state.lock();
        state.records.clear();
        state.next = 0;
    }

    fn set_closed(&self, is_closed: bool) {
        self.0.state.lock().is_closed = is_closed;
        self.0.changed.notify_one();
    }
}

struct Reader {
    kernel: Kernel,
    at: Mutex<u64>,
}

#[async_trait]
impl Records for Reader {
    fn try_next(&self) -> io::Result<Option<KernelRecord>> {
        let state = self.kernel.0.state.lock();
        if state.is_closed {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        let mut at = self.at.lock();
        let record = state.records.iter().find(|record| record.sequence >= *at).cloned();
        *at = record.as_ref().map_or(*at, |record| record.sequence + 1);
        Ok(record)
    }

    async fn next(&self) -> io::Result<KernelRecord> {
        loop {
            if let Some(record) = self.try_next()? {
                return Ok(record);
            }
            self.kernel.0.changed.notified().await;
        }
    }
}

/// A host with its kernel, and a daemon that can be restarted.
struct Bed {
    kernel: Kernel,
    store: Store,
    events: Arc<Mutex<Vec<NodeEvent>>>,
    conditions: watch::Sender<KernelConditions>,
    node: watch::Sender<Option<Arc<Node>>>,
    metrics: Metrics,
    task: Option<(JoinHandle<()>, CancellationToken)>,
}

impl Bed {
    fn new() -> Self {
        Self {
            kernel: Kernel::default(),
            store: Store::default(),
            events: Arc::default(),
            conditions: watch::Sender::default(),
            node: watch::Sender::default(),
            metrics: Metrics::default(),
            task: None,
        }
    }

    /// Starts the daemon again.
    async fn start(&mut self, boot_id: &str, has_conditions: bool) {
        if let Some((task, cancel)) = self.task.take() {
            cancel.cancel();
            task.await.unwrap();
        }
        let (events, kernel) = (self.events.clone(), self.kernel.clone());
        self.conditions = watch::Sender::default();
        let deps = KernelObserverDeps {
            log: "/dev/kmsg".into(),
            boot_id: boot_id.to_owned(),
            has_conditions,
            store: self.store.clone(),
            events: Arc::new(move |event| events.lock().push(event)),
            conditions: self.conditions.clone(),
            node: self.node.subscribe(),
        };
        let open = Box::new(move || -> io::Result<Box<dyn Records>> {
            kernel.0.state.lock().opened += 1;
            Ok(Box::new(Reader { kernel: kernel.clone(), at: Mutex::default() }))
        });
        let observer = KernelObserver::with_records(deps, open);
        self.metrics = Metrics::default();
        observer.register(&self.metrics);
        let cancel = CancellationToken::new();
        #[allow(clippy::disallowed_methods, reason = "a test, which ends it itself")]
        let task = tokio::spawn(observer.run(cancel.clone()));
        self.task = Some((task, cancel));
        settle().await;
    }

    /// The reasons of the events since the last call.
    fn reasons(&self) -> Vec<String> {
        self.events.lock().drain(..).map(|event| event.reason.into_owned()).collect()
    }

    fn holding(&self) -> Option<Vec<KernelCondition>> {
        match &*self.conditions.borrow() {
            KernelConditions::Reported(findings) => Some(findings.keys().copied().collect()),
            KernelConditions::NotOurs | KernelConditions::Withdrawn => None,
        }
    }

    fn counts(&self, line: &str) -> bool {
        self.metrics.encode().lines().any(|shown| shown == line)
    }
}

/// Lets the task do all that it can do now.
async fn settle() {
    sleep(Duration::from_millis(1)).await;
}

fn node(conditions: &[&str]) -> Option<Arc<Node>> {
    let condition = |name: &&str| NodeCondition { type_: (*name).to_owned(), ..NodeCondition::default() };
    let conditions = Some(conditions.iter().map(condition).collect());
    let status = Some(NodeStatus { conditions, ..NodeStatus::default() });
    Some(Arc::new(Node { status, ..Node::default() }))
}

#[tokio::test(start_paused = true)]
async fn a_restart_repeats_no_event_and_loses_none() {
    let mut bed = Bed::new();
    bed.kernel.log(OTHER);
    bed.start("a", false).await;
    bed.kernel.log(EXT4);
    bed.kernel.log(OTHER);
    settle().await;
    let message = bed.events.lock()[0].message.clone();
    assert_eq!((message.as_str(), bed.reasons()), (EXT4, vec!["Ext4Error".to_owned()]));
    bed.start("a", false).await;
    assert_eq!(bed.reasons(), [""; 0]);
    // While no daemon runs.
    let (task, cancel) = bed.task.take().unwrap();
    cancel.cancel();
    task.await.unwrap();
    bed.kernel.log(OOPS);
    bed.start("a", false).await;
    assert_eq!(bed.reasons(), ["KernelOops"]);
    assert!(bed.counts("hostlet_kernel_problems_total{reason=\"KernelOops\"} 1"));
    assert!(bed.counts("hostlet_kernel_problems_total{reason=\"Ext4Error\"} 0"), "of the previous daemon");
    bed.start("a", false).await;
    assert_eq!(bed.reasons(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_boot_is_reported_from_its_first_message_on() {
    let mut bed = Bed::new();
    for _ in 0..9 {
        bed.kernel.log(OTHER);
    }
    bed.start("a", true).await;
    bed.kernel.log(READ_ONLY);
    settle().await;
    assert_eq!(bed.holding(), Some(vec![KernelCondition::ReadonlyFilesystem]));
    bed.kernel.reboot();
    bed.kernel.log(OOPS);
    bed.reasons();
    bed.start("b", true).await;
    assert_eq!((bed.reasons(), bed.holding()), (vec!["KernelOops".to_owned()], Some(vec![])));
}

#[tokio::test(start_paused = true)]
async fn what_was_before_the_first_start_is_no_event_but_lasts() {
    let mut bed = Bed::new();
    bed.kernel.log(EXT4);
    bed.kernel.log(READ_ONLY);
    bed.start("a", true).await;
    assert_eq!(bed.reasons(), [""; 0]);
    assert_eq!(bed.holding(), Some(vec![KernelCondition::ReadonlyFilesystem]));
    assert!(bed.counts("hostlet_kernel_condition{condition=\"ReadonlyFilesystem\"} 1"));
    assert!(bed.counts("hostlet_kernel_condition{condition=\"KernelDeadlock\"} 0"));
    assert!(bed.counts("hostlet_kernel_problems_total{reason=\"FilesystemIsReadOnly\"} 0"));
    bed.kernel.log(EXT4);
    bed.start("a", true).await;
    assert_eq!(bed.reasons(), ["Ext4Error"]);
    assert_eq!(bed.holding(), Some(vec![KernelCondition::ReadonlyFilesystem]), "until the host reboots");
}

#[tokio::test(start_paused = true)]
async fn a_flood_is_a_few_events_and_all_of_it_is_counted() {
    let mut bed = Bed::new();
    bed.start("a", false).await;
    for _ in 0..10_000 {
        bed.kernel.log(EXT4);
    }
    bed.kernel.log(OOPS);
    settle().await;
    assert_eq!(bed.reasons(), ["Ext4Error", "Ext4Error", "Ext4Error", "KernelOops"]);
    assert!(bed.counts("hostlet_kernel_problems_total{reason=\"Ext4Error\"} 10000"));
    bed.start("a", false).await;
    assert_eq!(bed.reasons(), [""; 0], "suppressed events are not made up for");
}

#[tokio::test(start_paused = true)]
async fn overwritten_records_are_counted() {
    let mut bed = Bed::new();
    bed.start("a", false).await;
    bed.kernel.log(OTHER);
    settle().await;
    for _ in 0..7 {
        bed.kernel.log(OTHER);
    }
    bed.kernel.overwrite();
    bed.kernel.log(OOPS);
    settle().await;
    assert_eq!(bed.reasons(), ["KernelOops"]);
    assert!(bed.counts("hostlet_kernel_log_overwritten_total 7"));
}

#[tokio::test(start_paused = true)]
async fn a_log_that_cannot_be_read_is_tried_again_and_has_no_conditions_meanwhile() {
    let mut bed = Bed::new();
    bed.kernel.set_closed(true);
    bed.start("a", true).await;
    assert_eq!(*bed.conditions.borrow(), KernelConditions::NotOurs);
    assert!(bed.counts("hostlet_kernel_log_readable 0"));
    assert!(!bed.metrics.encode().contains("hostlet_kernel_condition{"));
    bed.kernel.set_closed(false);
    sleep(Duration::from_secs(61)).await;
    assert_eq!(bed.holding(), Some(vec![]));
    assert!(bed.counts("hostlet_kernel_log_readable 1"));
    bed.kernel.set_closed(true);
    settle().await;
    assert_eq!(*bed.conditions.borrow(), KernelConditions::Withdrawn);
    bed.kernel.log(OOPS);
    bed.kernel.set_closed(false);
    sleep(Duration::from_secs(3600)).await;
    assert_eq!(bed.reasons(), ["KernelOops"]);
    assert_eq!(bed.holding(), Some(vec![]));
    let opened = bed.kernel.0.state.lock().opened;
    sleep(Duration::from_secs(3600)).await;
    assert_eq!(bed.kernel.0.state.lock().opened, opened, "a log that is read is not opened again");
}

#[tokio::test(start_paused = true)]
async fn conditions_that_are_no_longer_asked_for_are_removed_once() {
    let mut bed = Bed::new();
    bed.start("a", false).await;
    bed.node.send_replace(node(&["Ready", "KernelDeadlock"]));
    settle().await;
    assert_eq!(*bed.conditions.borrow(), KernelConditions::NotOurs, "somebody else's");

    bed.start("a", true).await;
    assert_eq!(bed.holding(), Some(vec![]));
    bed.start("b", false).await;
    assert_eq!(*bed.conditions.borrow(), KernelConditions::Withdrawn);
    bed.node.send_replace(node(&["Ready"]));
    settle().await;
    assert_eq!(*bed.conditions.borrow(), KernelConditions::NotOurs);
    bed.node.send_replace(node(&["Ready", "KernelDeadlock"]));
    bed.start("b", false).await;
    assert_eq!(*bed.conditions.borrow(), KernelConditions::NotOurs);
}
