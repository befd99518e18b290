//! When the work that people wait for pauses, so that what nobody waits for is done then.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use tokio::time::Instant;

/// How long nothing may have been noted for it to be a quiet period: longer than one step of a pod's start leaves between two.
const QUIET: Duration = Duration::from_millis(250);

/// Knows when work last went on. Cheap to clone; all clones are one.
#[derive(Clone, Debug, Default)]
pub struct QuietPeriod {
    last: Arc<Mutex<Option<Instant>>>,
}

impl QuietPeriod {
    fn lock(&self) -> MutexGuard<'_, Option<Instant>> {
        // Every statement under the lock leaves the value valid.
        self.last.lock()
    }

    /// Work begins or ends. Work that takes long is not noted between: it waits itself, as a container's end within its
    /// grace period does.
    pub fn note_work(&self) {
        *self.lock() = Some(Instant::now());
    }

    /// Waits until no work was noted for 250 ms, though no longer than until `latest`, however busy the node is.
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

    /// When the quiet period begins or has begun, unless more work is noted before; none if no work was noted yet.
    pub fn expected(&self) -> Option<Instant> {
        self.lock().map(|last| last + QUIET)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_lull_begins_a_moment_after_the_last_work_and_not_later_than_patience_allows() {
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
