//! The task that removes records of images that the runtime no longer has.

use std::sync::Arc;
use std::time::Duration;

use hostlet_runtime::cri::ImageService;
use tokio::time::{MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;

use super::PullRecords;

/// How often, as upstream, which does it with the garbage collection of images.
const PERIOD: Duration = Duration::from_secs(300);

/// The task; run by the app.
pub struct RecordUpkeep {
    service: Arc<dyn ImageService>,
    records: PullRecords,
}

impl RecordUpkeep {
    pub(crate) fn new(service: Arc<dyn ImageService>, records: PullRecords) -> Self {
        Self { service, records }
    }

    /// Runs until cancelled. While the runtime does not answer, nothing is removed.
    pub async fn run(self, cancel: CancellationToken) {
        let mut ticks = interval(PERIOD);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                // Cancel-safe: waits for a token.
                () = cancel.cancelled() => return,
                // Cancel-safe: a tick is taken only when it is returned.
                _ = ticks.tick() => {}
            }
            let listed_at = self.records.now();
            tokio::select! {
                // Cancel-safe: waits for a token.
                () = cancel.cancelled() => return,
                // Cancel-safe: only reads.
                listed = self.service.list_images() => match listed {
                    Ok(present) => self.records.prune(&present, listed_at),
                    Err(error) => tracing::debug!(%error, "cannot list images; records of pulls are kept"),
                },
            }
        }
    }
}
