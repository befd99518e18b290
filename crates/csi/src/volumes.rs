//! The door to the volumes of CSI drivers: takes what pods want, tells what became of it. Starts an owner for each volume (`life`), and
//! decides nothing about it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;

use hostlet_base::{PodUid, WallClock};
use hostlet_host::Mounts;
use hostlet_store::Store;
use tokio::sync::{mpsc, oneshot, watch};
use tokio_util::sync::CancellationToken;

use crate::{Attachments, NodeService, Publish, PublishState};

/// Bound of pending requests to the task, which only forwards them; senders wait for capacity.
const REQUESTS: usize = 16;

/// The node services of the registered drivers, by the driver's name.
pub type Services = BTreeMap<String, Arc<dyn NodeService>>;

/// The volumes of a pod by the name that they have in the spec ([`Publish::spec_name`]), and what became of them.
pub type PodStates = BTreeMap<String, PublishState>;

/// Dependencies of the volumes.
pub struct CsiSettings {
    /// The daemon's directory.
    pub root: PathBuf,
    /// The node's name, of which upstream's files and the names of VolumeAttachments are made.
    pub node: String,
    /// This boot of the host, by which it is known that mounts are gone (`/proc/sys/kernel/random/boot_id`).
    pub boot: String,
    /// The host's mounts.
    pub mounts: Arc<dyn Mounts>,
    /// What is staged and published survives in it.
    pub store: Store,
    /// The registered drivers.
    pub services: watch::Receiver<Services>,
    /// What the cluster says of attached volumes.
    pub attachments: Arc<dyn Attachments>,
    /// The clock of what people read.
    pub clock: WallClock,
}

/// Why a pod's volumes are not all taken back.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReleaseError {
    /// The daemon is shutting down.
    #[error("the volumes of CSI drivers are shut down")]
    Ended,
    /// A volume could not be unpublished. The text is upstream's.
    #[error("UnmountVolume.TearDown failed for volume {volume:?} : {cause}")]
    Volume {
        /// Its name in the spec.
        volume: String,
        /// Why.
        cause: String,
    },
}

/// A request to the task.
pub(crate) enum Request {
    Publish(Publish),
    Release { pod: PodUid, reply: oneshot::Sender<Result<(), ReleaseError>> },
}

/// The handle. Clones share the task.
#[derive(Clone)]
pub struct CsiVolumes {
    requests: mpsc::Sender<Request>,
    states: States,
    is_none: bool,
}

/// What is known of pods' volumes, and which volumes must not be detached.
#[derive(Clone, Debug, Default)]
pub(crate) struct States {
    pods: Arc<parking_lot::Mutex<BTreeMap<PodUid, watch::Sender<PodStates>>>>,
    in_use: watch::Sender<BTreeSet<String>>,
}

impl States {
    /// Says what became of a volume of a pod.
    pub(crate) fn set(&self, pod: &PodUid, volume: &str, state: PublishState) {
        let mut pods = self.pods.lock();
        let known = pods.entry(pod.clone()).or_default();
        known.send_modify(|known| drop(known.insert(volume.to_owned(), state)));
    }
}

impl CsiVolumes {
    /// The task and its handle.
    pub fn new(settings: CsiSettings) -> (CsiTask, Self) {
        let (requests, inbox) = mpsc::channel(REQUESTS);
        let states = States::default();
        let task = CsiTask { settings, inbox, states: states.clone() };
        (task, Self { requests, states, is_none: false })
    }

    /// A handle whose requests a test answers.
    #[cfg(feature = "fakes")]
    pub(crate) fn of_test() -> (Self, mpsc::Receiver<Request>, States) {
        let (requests, inbox) = mpsc::channel(REQUESTS);
        let states = States::default();
        (Self { requests, states: states.clone(), is_none: false }, inbox, states)
    }

    /// Of a host on which no driver can be registered: every volume fails, and there is nothing to take back.
    pub fn none() -> Self {
        // Without a receiver.
        let (requests, _) = mpsc::channel(1);
        Self { requests, states: States::default(), is_none: true }
    }

    /// Says that a pod wants a volume, until it is released. Returns at once; [`CsiVolumes::follow`] tells what becomes of it. Saying it
    /// again is cheap: with other tokens, options or secrets than before these are used from the next call on.
    pub async fn publish(&self, wanted: Publish) {
        if self.is_none {
            let driver = &wanted.id.driver;
            let text = format!("driver name {driver} not found in the list of registered CSI drivers");
            return self.states.set(&wanted.pod, &wanted.spec_name, PublishState::Failed(text));
        }
        // A task that has ended publishes nothing more; the state of the volume stays what it is.
        let _ = self.requests.send(Request::Publish(wanted)).await;
    }

    /// What became of the volumes of a pod. A volume that was never wanted is not in it.
    pub fn follow(&self, pod: &PodUid) -> watch::Receiver<PodStates> {
        self.states.pods.lock().entry(pod.clone()).or_default().subscribe()
    }

    /// Takes back all volumes that are published for a pod of which nothing runs any more, whichever daemon published them. Succeeds for
    /// pods without such volumes. Dropping the future stops waiting, not the work.
    ///
    /// # Errors
    /// A volume could not be unpublished: its driver is not there, or says no. Then retry.
    pub async fn release(&self, pod: &PodUid) -> Result<(), ReleaseError> {
        if self.is_none {
            return Ok(());
        }
        let (reply, answer) = oneshot::channel();
        let sent = self.requests.send(Request::Release { pod: pod.clone(), reply }).await;
        sent.map_err(|_| ReleaseError::Ended)?;
        answer.await.unwrap_or(Err(ReleaseError::Ended))
    }

    /// The unique names of the volumes that a controller must not detach: `status.volumesInUse` of the Node.
    pub fn in_use(&self) -> watch::Receiver<BTreeSet<String>> {
        self.states.in_use.subscribe()
    }
}

/// The task, which the app runs.
pub struct CsiTask {
    settings: CsiSettings,
    inbox: mpsc::Receiver<Request>,
    states: States,
}

impl CsiTask {
    /// Runs until cancelled. Volumes stay in place, as their pods keep running.
    pub async fn run(self, cancel: CancellationToken) {
        cancel.cancelled().await;
    }
}
