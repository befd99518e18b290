//! Restarts of the runtime itself. Pure.

use std::time::Duration;

use hostlet_base::{ContainerId, SandboxId};
use tokio::time::Instant;

use super::super::{CriError, Operation, SandboxState};
use super::clock::later;
use super::faults::Failure;
use super::world::World;

/// A restart of the runtime.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Restart {
    /// How long it is down.
    pub down: Duration,
    /// How long it reports not ready after that, while it recovers its state.
    pub recovering: Duration,
    /// Whether all processes die with it, as in a reboot.
    pub takes_pods_along: bool,
}

/// Deadlines of a restart's phases.
#[derive(Clone, Copy, Debug)]
pub(super) struct Outage {
    down_until: Instant,
    recovering_until: Instant,
}

impl World {
    pub(super) fn restart(&mut self, restart: Restart, now: Instant) {
        let down_until = later(now, restart.down);
        let recovering_until = later(down_until, restart.recovering);
        self.outage = Some(Outage { down_until, recovering_until });
        self.forget_unlanded();
        self.restarts += 1;
        if restart.takes_pods_along {
            let containers: Vec<ContainerId> = self.containers.keys().cloned().collect();
            for id in containers {
                // containerd's exit for a process that it finds gone.
                self.exit(&id, now, 255, "Unknown");
            }
            let sandboxes: Vec<SandboxId> = self.sandboxes.keys().cloned().collect();
            for id in sandboxes {
                if self.sandboxes.get(&id).is_some_and(|record| record.state == SandboxState::Ready) {
                    self.kill_sandbox(&id);
                }
            }
        }
        self.hub.hang_up();
        self.touch();
    }

    /// Whether calls are answered.
    pub(super) fn serves(&self, operation: Operation, now: Instant) -> Result<(), CriError> {
        match self.outage {
            Some(outage) if now < outage.down_until => Err(Failure::Unreachable.of(operation)),
            Some(outage) if now < outage.recovering_until => {
                Err(Failure::Failed("server is not initialized yet".to_owned()).of(operation))
            }
            Some(_) | None => Ok(()),
        }
    }
}
