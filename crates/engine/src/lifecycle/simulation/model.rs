//! Model of a pod's containers from their observed changes, with the minimum back-off of each next start. Pure.

use std::time::Duration;

use tokio::time::Instant;

use hostlet_base::{ContainerId, SandboxId};
use hostlet_runtime::cri::fake::{Happened, What};

const FIRST_PAUSE: Duration = Duration::from_secs(10);
const LONGEST_PAUSE: Duration = Duration::from_secs(300);
/// After a run this long the back-off may be reset. The rule is ten minutes from the decision to start until the exit; observed is
/// the start itself, which a slow runtime makes later.
const LONG_RUN: Duration = Duration::from_secs(400);

/// The latest instance of a container.
#[derive(Clone, Debug)]
pub(super) struct Instance {
    pub(super) id: ContainerId,
    pub(super) attempt: u32,
    pub(super) sandbox: SandboxId,
    pub(super) started: Instant,
    pub(super) ended: Option<Instant>,
    pub(super) was_stopped: bool,
    /// Whether the daemon that started it was killed before it had stored how often the container had crashed.
    is_unstored: bool,
    /// Whether it belongs to an earlier lifecycle of its pod.
    is_buried: bool,
    /// Number of restarts after it exited by itself, since the last reset.
    restarts: u32,
}

impl Instance {
    /// The next instance, or why it must not start now.
    pub(super) fn begin(before: Option<&Self>, happened: &Happened) -> Result<Self, String> {
        let next = Self {
            id: happened.id.clone(),
            attempt: happened.attempt,
            sandbox: happened.sandbox.clone(),
            started: happened.at,
            ended: None,
            was_stopped: false,
            is_unstored: false,
            is_buried: false,
            restarts: 0,
        };
        let Some(before) = before else { return Ok(next) };
        let Some(ended) = before.ended else { return Err(format!("runs already as {}", before.id)) };
        if before.is_buried {
            return Ok(next);
        }
        if before.attempt >= next.attempt {
            return Err(format!("attempt {} after attempt {}", next.attempt, before.attempt));
        }
        // In another sandbox or after a stop, the back-off does not apply; one that was not stored is lost.
        if before.was_stopped || before.is_unstored || before.sandbox != next.sandbox {
            return Ok(next);
        }
        let counted = if ended - before.started > LONG_RUN { 0 } else { before.restarts };
        let pause = match counted {
            0 => Duration::ZERO,
            n => (FIRST_PAUSE * (1 << (n - 1).min(8))).min(LONGEST_PAUSE),
        };
        let waited = next.started - ended;
        if waited < pause {
            return Err(format!("restart {} only {waited:?} after its end, not {pause:?}", counted + 1));
        }
        Ok(Self { restarts: counted + 1, ..next })
    }

    /// Applies an observed change.
    pub(super) fn take(&mut self, happened: &Happened) {
        match happened.what {
            What::Ended { .. } | What::Removed => {
                self.ended.get_or_insert(happened.at);
            }
            What::Started => {}
        }
    }

    /// Its pod terminated, and may start a new lifecycle while it still runs.
    pub(super) fn bury(&mut self) {
        self.is_buried = true;
    }

    /// Its daemon was killed before it had stored the start.
    pub(super) fn forget_crashes(&mut self) {
        self.is_unstored = true;
    }

    /// Its history does not determine the next back-off.
    pub(super) fn excuse(&mut self) {
        self.was_stopped = true;
    }

    /// Whether it ran at that time.
    pub(super) fn ran_at(&self, at: Instant) -> bool {
        self.started < at && self.ended.is_none_or(|ended| ended >= at)
    }
}
