//! Polls the runtime's status every five seconds (upstream's `updateRuntimeUp`) and publishes it.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::{FIRST_ANSWER_RETRY, RuntimeService, RuntimeStatus};

/// Poll interval.
const PERIOD: Duration = Duration::from_secs(5);

/// Poll interval until the runtime is ready: at boot, pods wait for it.
const PERIOD_UNREADY: Duration = Duration::from_secs(1);

/// Publishes the runtime's status until cancelled. An unresponsive runtime keeps its last status: relisting shows that it does
/// not respond, and so does `ready_at`, the last time it reported that it is ready.
pub async fn monitor(
    runtime: Arc<dyn RuntimeService>,
    status: watch::Sender<Option<RuntimeStatus>>,
    ready_at: watch::Sender<Option<Instant>>,
    cancel: CancellationToken,
) {
    loop {
        let answer = tokio::select! {
            // Cancel-safe: waits for a token.
            () = cancel.cancelled() => return,
            // Cancel-safe: a status call has no effect.
            answer = runtime.status() => answer,
        };
        if let Ok(new) = answer {
            if new.runtime.status {
                ready_at.send_replace(Some(Instant::now()));
            }
            status.send_if_modified(|old| {
                let changed = old.as_ref() != Some(&new);
                if changed {
                    log_changes(old.as_ref(), &new);
                    *old = Some(new);
                }
                changed
            });
        }
        let pause = match &*status.borrow() {
            None => FIRST_ANSWER_RETRY,
            Some(status) if status.runtime.status && status.network.status => PERIOD,
            Some(_) => PERIOD_UNREADY,
        };
        tokio::select! {
            // Cancel-safe: as above.
            () = cancel.cancelled() => return,
            // Cancel-safe: a sleep.
            () = tokio::time::sleep(pause) => {}
        }
    }
}

fn log_changes(old: Option<&RuntimeStatus>, new: &RuntimeStatus) {
    let conditions = [
        (old.map(|old| &old.runtime), &new.runtime, "container runtime"),
        (old.map(|old| &old.network), &new.network, "pod network"),
    ];
    for (before, condition, what) in conditions {
        if before == Some(condition) {
            continue;
        }
        if condition.status {
            tracing::info!("the {what} is ready");
        } else {
            tracing::warn!(reason = condition.reason, message = condition.message, "the {what} is not ready");
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::{Instant, timeout};

    use super::*;
    use crate::cri::Operation;
    use crate::cri::fake::{Failure, FakeRuntime, Fault, Rule};

    #[tokio::test(start_paused = true)]
    async fn the_runtime_is_polled_often_until_its_first_response() {
        let fake = FakeRuntime::new();
        let gone = Fault::Fail { after: Duration::ZERO, failure: Failure::Unreachable };
        fake.faults().add(Rule::new(Operation::Status, gone).times(7));
        let (status_in, mut status) = watch::channel(None);
        let begin = Instant::now();
        let asking =
            monitor(Arc::new(fake.clone()), status_in, watch::Sender::new(None), CancellationToken::new());
        let answered = timeout(PERIOD, status.wait_for(Option::is_some));
        tokio::select! {
            () = asking => panic!("nobody cancelled it"),
            answered = answered => assert!(answered.unwrap().is_ok()),
        }
        assert_eq!(begin.elapsed().as_millis(), 7 * FIRST_ANSWER_RETRY.as_millis());
    }
}
