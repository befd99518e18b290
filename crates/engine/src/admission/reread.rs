//! Rereads the Node before a pod is rejected because of its labels or taints: the watched copy may be slightly stale, and a
//! rejection is final. Decides nothing about pods.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use tokio::time::{Instant, sleep};

use hostlet_base::node::{NodeReadError, NodeReader};
use hostlet_base::{Backoff, BackoffPolicy, PodUid};

/// Pauses between attempts while the API server does not answer. A rejection could not be reported meanwhile anyway.
const BACKOFF: BackoffPolicy = BackoffPolicy {
    initial: Duration::from_millis(200),
    max: Duration::from_secs(10),
    reset_after: Duration::MAX,
};

/// Tracks for which pods the Node was read after they arrived.
pub(super) struct Reread {
    reader: Option<Arc<dyn NodeReader>>,
    /// Pods whose checks may rely on the Node as last read.
    confirmed: HashSet<PodUid>,
    /// The read in flight, and the pods it was started for.
    reading: Option<(HashSet<PodUid>, BoxFuture<'static, ()>)>,
}

impl Reread {
    /// Without a reader there is no Node to read, and every decision is final at once.
    pub(super) fn new(reader: Option<Arc<dyn NodeReader>>) -> Self {
        Self { reader, confirmed: HashSet::new(), reading: None }
    }

    /// The pods that may be rejected because of the Node as last read; `None` means all of them.
    pub(super) fn confirmed(&self) -> Option<&HashSet<PodUid>> {
        self.reader.as_ref().map(|_| &self.confirmed)
    }

    /// Starts a read for pods that do not match the Node as last seen; they wait for its result. A pod that arrives while a
    /// read is in flight waits for the next one: the Node may have been changed because of that pod after the read began.
    pub(super) fn request(&mut self, unconfirmed: HashSet<PodUid>) {
        self.confirmed.clear();
        if unconfirmed.is_empty() {
            self.reading = None;
        } else if self.reading.is_none()
            && let Some(reader) = self.reader.clone()
        {
            self.reading = Some((unconfirmed, read(reader).boxed()));
        }
    }

    /// Waits until a requested read is done. Cancel-safe.
    pub(super) async fn done(&mut self) {
        match &mut self.reading {
            Some((_, reading)) => reading.await,
            None => std::future::pending().await,
        }
        if let Some((uids, _)) = self.reading.take() {
            self.confirmed = uids;
        }
    }
}

/// Reads the Node, retrying until the API server answers.
async fn read(reader: Arc<dyn NodeReader>) {
    let mut backoff = None;
    while let Err(NodeReadError { retry_after }) = reader.read().await {
        let now = Instant::now();
        let next = Backoff::next(backoff, &BACKOFF, now, now);
        backoff = Some(next);
        // Jitter: after a failure of the server all nodes come back at once.
        sleep(next.delay.mul_f64(rand::random_range(0.5..1.0)).max(retry_after)).await;
    }
}
