//! The task that measures the disks when somebody asks. The runtime takes long for its part, so whoever asks within a minute of a
//! measurement gets that one, and has the next one made meanwhile. While nobody asks, it only waits.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Notify, watch};
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use super::disk::{DiskSettings, DiskUsage, measure};
use super::error::MeasureError;

/// How long a measurement is recent: the runtime measures writable layers and images as often.
const RECENT: Duration = Duration::from_secs(10);

/// How long one is used while the next one is made: as old as upstream's figures of volumes become.
const USED: Duration = Duration::from_secs(60);

/// How long the next one waits while there is one to use: those who asked make their answers first.
const LATER: Duration = Duration::from_secs(1);

type Measured = Result<Arc<DiskUsage>, Arc<MeasureError>>;

/// The latest measurement.
#[derive(Clone, Debug)]
struct Latest {
    began: Instant,
    measured: Measured,
}

impl Latest {
    /// What was measured, if it worked and began at most this long ago.
    fn within(&self, age: Duration) -> Option<&Arc<DiskUsage>> {
        self.measured.as_ref().ok().filter(|_| self.began.elapsed() < age)
    }
}

/// The handle. Clones share measurements.
#[derive(Clone)]
pub struct DiskStats {
    latest: watch::Receiver<Option<Latest>>,
    asked: Arc<Notify>,
}

/// Measures disks periodically, and on request.
pub struct DiskStatsTask {
    settings: Arc<DiskSettings>,
    latest: watch::Sender<Option<Latest>>,
    asked: Arc<Notify>,
}

impl DiskStats {
    /// The task and its handle.
    pub fn new(settings: DiskSettings) -> (DiskStatsTask, Self) {
        let (sender, latest) = watch::channel(None);
        let asked = Arc::new(Notify::new());
        let task = DiskStatsTask { settings: Arc::new(settings), latest: sender, asked: asked.clone() };
        (task, Self { latest, asked })
    }

    /// What the disks have, as of at most a minute ago.
    ///
    /// # Errors
    /// It cannot be measured now.
    pub async fn usage(&self) -> Measured {
        let mut latest = self.latest.clone();
        let last = latest.borrow_and_update().clone();
        let is_recent = last.as_ref().is_some_and(|last| last.within(RECENT).is_some());
        if !is_recent {
            self.asked.notify_one();
        }
        if let Some(usage) = last.as_ref().and_then(|last| last.within(USED)) {
            return Ok(usage.clone());
        }
        // Fails at the end of the daemon.
        let is_measured = latest.changed().await.is_ok();
        let next = latest.borrow().clone().filter(|_| is_measured);
        next.map_or_else(|| Err(Arc::new(MeasureError::Stopped)), |next| next.measured)
    }
}

impl DiskStatsTask {
    /// Measures whenever somebody asks, until `cancel`.
    pub async fn run(self, cancel: CancellationToken) {
        while cancel.run_until_cancelled(self.asked.notified()).await.is_some() {
            let has = |age| self.latest.borrow().as_ref().is_some_and(|last| last.within(age).is_some());
            // Who asked during a measurement has its result.
            if has(RECENT) {
                continue;
            }
            let can_wait = has(USED);
            let measuring = async {
                if can_wait {
                    sleep(LATER).await;
                }
                let began = Instant::now();
                let measured = measure(self.settings.clone()).await;
                Latest { began, measured: measured.map(Arc::new).map_err(Arc::new) }
            };
            let Some(latest) = cancel.run_until_cancelled(measuring).await else { return };
            self.latest.send_replace(Some(latest));
        }
    }
}
