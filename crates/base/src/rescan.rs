//! A request to read files again now, instead of at the next periodic check: a reload of the daemon. Only carries the request.

use tokio::sync::watch;

/// Requests rescans. Dropping it means that none follows.
#[derive(Debug, Default)]
pub struct RescanRequester {
    number: watch::Sender<u64>,
}

/// Receives requests. Each clone receives every request; several unread ones are one.
#[derive(Clone, Debug)]
pub struct Rescan {
    number: watch::Receiver<u64>,
}

impl RescanRequester {
    /// A receiver of the requests from now on.
    pub fn subscribe(&self) -> Rescan {
        Rescan { number: self.number.subscribe() }
    }

    /// Requests a rescan by every receiver.
    pub fn request(&self) {
        self.number.send_modify(|number| *number += 1);
    }
}

impl Rescan {
    /// Waits for a request; forever if none can follow. Cancel-safe.
    pub async fn requested(&mut self) {
        // Cancel-safe: a watch marks its value seen only when `changed` returns.
        if self.number.changed().await.is_err() {
            std::future::pending().await
        }
    }
}

impl Default for Rescan {
    /// Receives nothing.
    fn default() -> Self {
        RescanRequester::default().subscribe()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::timeout;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn unread_requests_are_one_and_none_is_lost() {
        let requester = RescanRequester::default();
        let (mut a, mut b) = (requester.subscribe(), requester.subscribe());
        requester.request();
        requester.request();
        a.requested().await;
        b.requested().await;
        assert!(timeout(Duration::from_secs(1), a.requested()).await.is_err());
        requester.request();
        a.requested().await;
        drop(requester);
        assert!(timeout(Duration::from_secs(1), a.requested()).await.is_err());
    }
}
