//! The task that asks drivers what they say of this node, after each registration and whenever somebody wants it, until they answer.
//! Decides nothing.

use std::sync::Arc;

use futures::StreamExt;
use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use hostlet_base::sleep_until;
use hostlet_plugins::InstanceId;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::shared::Shared;
use super::state::{Answer, Ask};

/// The task, which the app runs.
pub struct NodeInfoTask {
    shared: Arc<Shared>,
}

/// An instance's answer.
type Answered = (String, InstanceId, Answer);

impl NodeInfoTask {
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        Self { shared }
    }

    /// Runs until cancelled.
    pub async fn run(self, cancel: CancellationToken) {
        let mut asked: FuturesUnordered<BoxFuture<'static, Answered>> = FuturesUnordered::new();
        loop {
            let now = Instant::now();
            for ask in self.shared.change(|state| state.take_due(now)) {
                asked.push(Box::pin(answer(ask)));
            }
            tokio::select! {
                // Cancel-safe: waits for a token.
                () = cancel.cancelled() => return,
                // Cancel-safe: a notification is consumed only when returned.
                () = self.shared.due.notified() => {}
                // Cancel-safe: only a clock.
                () = sleep_until(self.shared.next_due()) => {}
                // Cancel-safe: an answer leaves the set only when returned.
                Some((driver, id, answer)) = asked.next() => {
                    let now = Instant::now();
                    let failure = self.shared.change(|state| state.answered(&driver, id, answer, now));
                    if let Some(error) = failure {
                        tracing::warn!(driver, instance = %id, error, "a CSI driver does not say what it must of this node");
                    }
                }
            }
        }
    }
}

/// Asks an instance. It is not asked what it can do before it says where it is.
async fn answer(ask: Ask) -> Answered {
    let Ask { driver, id, service } = ask;
    let answer = match service.info().await {
        Ok(info) if info.node_id.is_empty() => {
            // Upstream's text.
            let failure = "error adding CSI driver node info: driverNodeID must not be empty".to_owned();
            Answer { failure: Some(failure), ..Answer::default() }
        }
        Ok(info) => match service.capabilities().await {
            Ok(can) => Answer { info: Some(info), capabilities: Some(can), failure: None },
            Err(error) => Answer {
                info: Some(info),
                capabilities: None,
                failure: Some(format!("{}: {error}", error.call)),
            },
        },
        Err(error) => Answer { failure: Some(format!("{}: {error}", error.call)), ..Answer::default() },
    };
    (driver, id, answer)
}
