//! The current activity of a pod's worker and the time of its next sync. Only for display; no decision depends on it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use jiff::Timestamp;

use hostlet_base::ContainerId;

/// How many instances of a container a status shows: the present one and the one before.
const SHOWN_INSTANCES: usize = 2;

/// What an image is pulled for. `Display` names it, e.g. `container main`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ImageOwner {
    /// The container with this name runs it.
    Container(String),
    /// The image volume with this name has its files.
    Volume(String),
}

impl fmt::Display for ImageOwner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Container(name) => write!(f, "container {name}"),
            Self::Volume(name) => write!(f, "volume {name}"),
        }
    }
}

/// An image that a pod needs.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ImagePull {
    /// The container or image volume that needs it.
    pub owner: ImageOwner,
    /// The image as the spec names it.
    pub image: String,
}

/// A worker's step.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Activity {
    /// Idle: the pod is in its desired state, or the next step has not begun.
    #[default]
    Idle,
    /// Waits at the start gate.
    QueuedStart,
    /// Sets up the volumes.
    SettingUpVolumes,
    /// Has claimed devices prepared.
    PreparingClaims,
    /// Creates the sandbox and its network.
    MakingSandbox,
    /// Waits for an image that is being pulled, for a container that it starts or for a volume of that container.
    PullingImage(ImagePull),
    /// The runtime is creating a container.
    CreatingContainer {
        /// Its name.
        container: String,
    },
    /// The runtime is starting a container.
    StartingContainer {
        /// Its name.
        container: String,
    },
    /// Runs the postStart hook of a container.
    PostStartHook {
        /// Its name.
        container: String,
    },
    /// Stops containers.
    StoppingContainers {
        /// The grace period in seconds.
        grace_seconds: i64,
    },
    /// Stops the sandbox and tears down its network.
    StoppingSandbox,
    /// Has claimed devices unprepared.
    UnpreparingClaims,
    /// Removes containers, logs, directories and cgroup.
    CleaningUp,
    /// Waits for restart back-offs.
    BackingOff,
    /// The last work failed and is retried.
    Retrying {
        /// The error, if reported.
        error: Option<String>,
    },
}

impl Activity {
    /// The image that is being pulled, as the spec names it.
    pub fn image(&self) -> Option<&str> {
        match self {
            Self::PullingImage(pull) => Some(&pull.image),
            Self::Idle
            | Self::QueuedStart
            | Self::SettingUpVolumes
            | Self::PreparingClaims
            | Self::UnpreparingClaims
            | Self::MakingSandbox
            | Self::CreatingContainer { .. }
            | Self::StartingContainer { .. }
            | Self::PostStartHook { .. }
            | Self::StoppingContainers { .. }
            | Self::StoppingSandbox
            | Self::CleaningUp
            | Self::BackingOff
            | Self::Retrying { .. } => None,
        }
    }
}

/// A stop of a container by hostlet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContainerKill {
    /// Name of the container in its pod.
    pub container: String,
    /// The instance that was stopped, by the runtime's ID.
    pub id: ContainerId,
    /// When its stop began.
    pub at: Timestamp,
    /// Why, as the event says.
    pub why: String,
}

/// What a pod's worker does at the moment, and what it does next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkerActivity {
    /// What it does at the moment; idle between two syncs.
    pub activity: Activity,
    /// When this began.
    pub since: Timestamp,
    /// The images that are being pulled or queued, whether or not the step waits for them.
    pub pulling: BTreeSet<ImagePull>,
    /// The earliest retry (restart or pull) of each failed container, by name.
    pub retries: BTreeMap<String, Timestamp>,
    /// The pull Secrets that were not available when an image could not be pulled.
    pub missing_secrets: Vec<String>,
    /// The latest time of the next sync; `None` while working.
    pub next_work: Option<Timestamp>,
    /// The containers that were stopped since the daemon started, oldest first: of each the instances that a status can show.
    pub kills: Vec<ContainerKill>,
}

impl WorkerActivity {
    /// Nothing yet.
    pub(super) fn nothing(now: Timestamp) -> Self {
        Self {
            activity: Activity::Idle,
            since: now,
            pulling: BTreeSet::new(),
            retries: BTreeMap::new(),
            missing_secrets: Vec::new(),
            next_work: None,
            kills: Vec::new(),
        }
    }

    /// Records a stop. A repeated one changes nothing.
    pub(super) fn killed(&mut self, kill: ContainerKill) {
        if self.kills.iter().any(|known| known.id == kill.id) {
            return;
        }
        let of_container = |known: &ContainerKill| known.container == kill.container;
        if self.kills.iter().filter(|known| of_container(known)).count() == SHOWN_INSTANCES
            && let Some(oldest) = self.kills.iter().position(of_container)
        {
            self.kills.remove(oldest);
        }
        self.kills.push(kill);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stops_of_the_instances_that_a_status_shows_are_recorded() {
        let mut doing = WorkerActivity::nothing(Timestamp::UNIX_EPOCH);
        let mut kill = |container: &str, id: &str, why: &str| {
            doing.killed(ContainerKill {
                container: container.to_owned(),
                id: id.into(),
                at: Timestamp::UNIX_EPOCH,
                why: why.to_owned(),
            });
        };
        for (container, id, why) in
            [("b", "b0", "only"), ("a", "a0", "1"), ("a", "a1", "2"), ("a", "a1", "again"), ("a", "a2", "3")]
        {
            kill(container, id, why);
        }
        let kept: Vec<_> = doing.kills.iter().map(|kill| (kill.id.as_str(), &*kill.why)).collect();
        assert_eq!(kept, [("b0", "only"), ("a1", "2"), ("a2", "3")]);
    }
}
