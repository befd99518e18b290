//! Detects quiet periods between starts and stops, for deferrable work.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use tokio::time::Instant;

/// Time without activity that starts a quiet period: longer than the gaps between the steps of a pod's start.
const QUIET: Duration = Duration::from_millis(250);

/// The time of the last activity. Cheap to clone; clones share it.
#[derive(Clone, Debug, Default)]
pub struct QuietPeriod {
    last: Arc<Mutex<Option<Instant>>>,
}

impl QuietPeriod {
    fn lock(&self) -> MutexGuard<'_, Option<Instant>> {
        // Every statement under the lock leaves the value consistent.
        self.last.lock()
    }

    /// Records the start or end of an activity. Long activities count only then, because they mostly wait, e.g. for a grace
    /// period.
    pub fn note_work(&self) {
        *self.lock() = Some(Instant::now());
    }

    /// Waits for 250 ms without activity, but at most until `latest`.
    pub async fn begins(&self, latest: Instant) {
        loop {
            match self.expected() {
                Some(quiet) if quiet.min(latest) > Instant::now() => {
                    tokio::time::sleep_until(quiet.min(latest)).await;
                }
                Some(_) | None => return,
            }
        }
    }

    /// When the quiet period starts or has started, without further activity; `None` without any activity yet.
    pub fn expected(&self) -> Option<Instant> {
        self.lock().map(|last| last + QUIET)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_quiet_period_starts_after_the_last_activity_or_at_the_deadline() {
        let (quiet_period, start) = (QuietPeriod::default(), Instant::now());
        let patience = Duration::from_secs(15);
        assert_eq!(quiet_period.expected(), None, "nothing was ever done");
        quiet_period.begins(start + patience).await;
        assert_eq!(start.elapsed(), Duration::ZERO);
        quiet_period.note_work();
        let worked_on = async {
            tokio::time::sleep(QUIET / 2).await;
            quiet_period.note_work();
        };
        tokio::join!(quiet_period.begins(start + patience), worked_on);
        assert_eq!(start.elapsed(), QUIET / 2 + QUIET);
        let always = async {
            loop {
                quiet_period.note_work();
                tokio::time::sleep(QUIET / 2).await;
            }
        };
        quiet_period.note_work();
        let start = Instant::now();
        tokio::select! {
            () = always => panic!("it never ends"),
            () = quiet_period.begins(start + patience) => assert_eq!(start.elapsed(), patience),
        }
    }
}
