//! Volumes of drivers as a test wants them: records what pods want, and says of it what the test says. Calls no driver.

use std::path::Path;
use std::sync::Arc;

use hostlet_base::PodUid;
use parking_lot::Mutex;
use tokio::sync::mpsc;

use crate::volumes::{Request, States};
use crate::{CsiVolumes, Publish, PublishState, Published, ReleaseError};

/// What the test decides and sees. Clones share it.
#[derive(Clone, Default)]
pub struct StandIn {
    states: States,
    inner: Arc<Mutex<Inner>>,
}

#[derive(Default)]
struct Inner {
    desired: Vec<Publish>,
    released: Vec<PodUid>,
    refusal: Option<ReleaseError>,
}

impl StandIn {
    /// A handle, what stands behind it, and what the test spawns.
    pub fn new() -> (Self, CsiVolumes, impl Future<Output = ()> + Send + 'static) {
        let (volumes, inbox, states) = CsiVolumes::of_test();
        let stand_in = Self { states, inner: Arc::default() };
        let task = stand_in.clone().answer(inbox);
        (stand_in, volumes, task)
    }

    async fn answer(self, mut inbox: mpsc::Receiver<Request>) {
        while let Some(request) = inbox.recv().await {
            let inner = &mut *self.inner.lock();
            match request {
                Request::Publish(desired) => inner.desired.push(*desired),
                Request::Release { pod, reply } => {
                    inner.released.push(pod);
                    let _ = reply.send(inner.refusal.clone().map_or(Ok(()), Err));
                }
            }
        }
    }

    /// Says what became of a volume of a pod.
    pub fn set(&self, pod: &PodUid, volume: &str, state: PublishState) {
        self.states.set(pod, volume, state);
    }

    /// Says that a volume of a pod is published there.
    pub fn published(&self, pod: &PodUid, volume: &str, path: &Path) {
        self.set(pod, volume, PublishState::Published(Published { path: path.to_owned() }));
    }

    /// All that was desired, in order.
    pub fn requests(&self) -> Vec<Publish> {
        self.inner.lock().desired.clone()
    }

    /// The pods whose volumes were to be released, in order.
    pub fn released(&self) -> Vec<PodUid> {
        self.inner.lock().released.clone()
    }

    /// Makes releases fail, or succeed again.
    pub fn refuse(&self, refusal: Option<ReleaseError>) {
        self.inner.lock().refusal = refusal;
    }
}
