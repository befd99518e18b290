//! The sessions that outlive their requests. They end with the node's API.

use parking_lot::Mutex;
use tokio::task::JoinSet;

/// The running sessions.
#[derive(Debug, Default)]
pub(super) struct Sessions(Mutex<JoinSet<()>>);

impl Sessions {
    /// Starts a session. Forgets those that have ended.
    pub(super) fn start(&self, session: impl Future<Output = ()> + Send + 'static) {
        let mut running = self.0.lock();
        while let Some(ended) = running.try_join_next() {
            if let Err(error) = ended {
                tracing::error!(%error, "a streaming session ended unexpectedly");
            }
        }
        running.spawn(session);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn ended_sessions_are_forgotten() {
        let sessions = Sessions::default();
        for _ in 0..2_000 {
            sessions.start(async {});
            tokio::task::yield_now().await;
        }
        let kept = sessions.0.lock().len();
        assert!(kept <= 2, "{kept}");
    }
}
