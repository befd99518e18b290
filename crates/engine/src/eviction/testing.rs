//! A node whose resources a test sets.

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use hostlet_base::node::Signal;
use hostlet_base::testing::at;
use hostlet_base::{CONFIG_SOURCE_ANNOTATION, PodUid, Quantity, WallClock};
use hostlet_observe::stats::{DiskLayout, MeasureError, Observation, SignalReport};
use hostlet_pod::AdmittedPod;
use parking_lot::Mutex;
use tokio::sync::watch;

use super::alarms::MemoryNotice;
use super::usage::{NodeObserver, PodConsumption, PodsConsumption};

/// A pod of the API server with one container.
pub(super) fn pod(name: &str) -> Arc<AdmittedPod> {
    let mut pod = hostlet_pod::testing::pod(name, name, "Always", &["c"]);
    let source = (CONFIG_SOURCE_ANNOTATION.to_owned(), "api".to_owned());
    pod.metadata.annotations = Some([source].into());
    AdmittedPod::new(pod)
}

/// The node. Clones share it.
#[derive(Clone)]
pub(super) struct FakeNode {
    state: Arc<Mutex<State>>,
    /// What the kernel is to say next.
    notice: watch::Sender<Option<MemoryNotice>>,
    clock: WallClock,
}

#[derive(Default)]
struct State {
    /// What is left, and the whole.
    left: BTreeMap<Signal, (u64, u64)>,
    unreadable: BTreeMap<Signal, String>,
    consumption: PodsConsumption,
    layout: Option<DiskLayout>,
    looks: usize,
}

impl Default for FakeNode {
    /// A node with 1000 of everything, of which nothing is used.
    fn default() -> Self {
        let left = Signal::ALL.map(|signal| (signal, (1000, 1000))).into();
        let state = State { left, layout: Some(DiskLayout::One), ..State::default() };
        Self {
            state: Arc::new(Mutex::new(state)),
            notice: watch::Sender::default(),
            clock: WallClock::of_tokio(at(0)),
        }
    }
}

impl FakeNode {
    /// Sets what is left of 1000.
    pub(super) fn leave(&self, signal: Signal, left: u64) {
        let mut state = self.state.lock();
        state.unreadable.remove(&signal);
        state.left.insert(signal, (left, 1000));
    }

    /// Sets the wall clock forward or back by this many seconds.
    pub(super) fn set_clock(&self, seconds: i64) {
        self.clock.set(seconds);
    }

    /// Sets which filesystems there are.
    pub(super) fn lay_out(&self, layout: DiskLayout) {
        self.state.lock().layout = Some(layout);
    }

    pub(super) fn conceal(&self, signal: Signal, why: &str) {
        self.state.lock().unreadable.insert(signal, why.to_owned());
    }

    pub(super) fn set_consumption(&self, pod: &str, consumption: PodConsumption) {
        self.state.lock().consumption.insert(PodUid::from(pod), consumption);
    }

    pub(super) fn forget(&self, pod: &str) {
        self.state.lock().consumption.remove(&PodUid::from(pod));
    }

    /// The kernel says this, once.
    pub(super) fn notify(&self, notice: MemoryNotice) {
        self.notice.send_replace(Some(notice));
    }

    /// How often somebody looked.
    pub(super) fn looks(&self) -> usize {
        self.state.lock().looks
    }
}

#[async_trait]
impl NodeObserver for FakeNode {
    async fn look(&self) -> SignalReport {
        let mut state = self.state.lock();
        state.looks += 1;
        let report = report(&state.left, &state.unreadable, self.clock.now().as_second());
        SignalReport { layout: state.layout, ..report }
    }

    async fn pods(&self, _: Signal) -> Result<PodsConsumption, Arc<MeasureError>> {
        Ok(self.state.lock().consumption.clone())
    }

    async fn noticed(&self) -> MemoryNotice {
        let mut notices = self.notice.subscribe();
        // The sender lives as long as this.
        let _ = notices.wait_for(Option::is_some).await;
        self.notice.send_replace(None).unwrap_or(MemoryNotice::Crossed)
    }
}

/// What was observed at this second, on a node with one disk.
pub(super) fn report(
    left: &BTreeMap<Signal, (u64, u64)>,
    unreadable: &BTreeMap<Signal, String>,
    second: i64,
) -> SignalReport {
    let observation = |(available, capacity): (u64, u64)| Observation {
        at: at(second),
        available: Quantity::count(available),
        capacity: Quantity::count(capacity),
    };
    let readable = left.iter().filter(|(signal, _)| !unreadable.contains_key(signal));
    SignalReport {
        observed: readable.map(|(signal, amounts)| (*signal, observation(*amounts))).collect(),
        unreadable: unreadable.clone(),
        layout: Some(DiskLayout::One),
    }
}
