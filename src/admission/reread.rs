//! Reading the Node anew before a pod is rejected for its labels or taints: what the watch showed may be a moment old, and a
//! refusal is for good. Decides nothing about pods.

use std::collections::HashSet;
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use tokio::time::{Instant, sleep};

use crate::api::ApiErrorKind;
use crate::node::NodeReader;
use crate::types::{Backoff, BackoffPolicy, PodUid};

/// Pauses while the API server does not answer. Nobody could be told of a refusal meanwhile.
const PAUSES: BackoffPolicy = BackoffPolicy {
    initial: Duration::from_millis(200),
    max: Duration::from_secs(10),
    reset_after: Duration::MAX,
};

/// For which pods the Node was read since they came.
pub(super) struct Reread {
    reader: Option<NodeReader>,
    /// Those for which it was.
    sure: HashSet<PodUid>,
    /// The reading under way, and for whom it began.
    reading: Option<(HashSet<PodUid>, BoxFuture<'static, ()>)>,
}

impl Reread {
    /// Without a reader there is no Node to be read: every judgement is sure.
    pub(super) fn new(reader: Option<NodeReader>) -> Self {
        Self { reader, sure: HashSet::new(), reading: None }
    }

    /// The pods whose judgement by the Node is sure; none for all.
    pub(super) fn sure(&self) -> Option<&HashSet<PodUid>> {
        self.reader.as_ref().map(|_| &self.sure)
    }

    /// These are not taken by the Node as it was last seen, and wait until it was read. One that comes while it is being
    /// read for others waits for the next reading: it may be the Node's latest change that was made for it.
    pub(super) fn ask(&mut self, doubtful: HashSet<PodUid>) {
        self.sure.clear();
        if doubtful.is_empty() {
            self.reading = None;
        } else if self.reading.is_none()
            && let Some(reader) = self.reader.clone()
        {
            self.reading = Some((doubtful, read(reader).boxed()));
        }
    }

    /// Waits until the Node was read for somebody. Cancel-safe.
    pub(super) async fn done(&mut self) {
        match &mut self.reading {
            Some((_, reading)) => reading.await,
            None => std::future::pending().await,
        }
        if let Some((uids, _)) = self.reading.take() {
            self.sure = uids;
        }
    }
}

/// Reads until the API server has answered. One that may not be asked leaves what was seen.
async fn read(reader: NodeReader) {
    let mut backoff = None;
    loop {
        let wish = match reader.read().await {
            Err(rejection @ (ApiErrorKind::TooMany(_) | ApiErrorKind::Unavailable)) => {
                rejection.wished_pause()
            }
            Ok(()) => return,
            Err(
                ApiErrorKind::NotFound
                | ApiErrorKind::AlreadyExists
                | ApiErrorKind::Conflict
                | ApiErrorKind::Forbidden
                | ApiErrorKind::Invalid,
            ) => return,
        };
        let now = Instant::now();
        let next = Backoff::next(backoff, &PAUSES, now, now);
        backoff = Some(next);
        sleep(next.delay.max(wish)).await;
    }
}
