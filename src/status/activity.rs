//! The current activity of a pod's worker and the time of its next sync. Only for display; no decision depends on it.

use std::collections::BTreeMap;

use jiff::Timestamp;

/// A worker's step.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Activity {
    /// Idle: the pod is in its desired state, or the next step has not begun.
    #[default]
    Idle,
    /// Waits at the start gate.
    WaitingForTurn,
    /// Sets up the volumes.
    SettingUpVolumes,
    /// Creates the sandbox and its network.
    MakingSandbox,
    /// Waits for the image of a container, which is being pulled.
    PullingImage {
        /// The container.
        container: String,
        /// The image as the spec names it.
        image: String,
    },
    /// Pulls the image of an image volume, or waits in the queue.
    PullingVolume {
        /// The volume.
        volume: String,
        /// The image as the spec names it.
        image: String,
    },
    /// Creates a container.
    CreatingContainer {
        /// Its name.
        container: String,
    },
    /// Starts a container.
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
            Self::PullingImage { image, .. } | Self::PullingVolume { image, .. } => Some(image),
            Self::Idle
            | Self::WaitingForTurn
            | Self::SettingUpVolumes
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

/// A worker's activity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Doing {
    /// The step.
    pub activity: Activity,
    /// Its start.
    pub since: Timestamp,
    /// The images that are being pulled or queued, by container, whether or not the step waits for them.
    pub pulling: BTreeMap<String, String>,
    /// The earliest retry (restart or pull) of each failed container, by name.
    pub retries: BTreeMap<String, Timestamp>,
    /// The pull Secrets that were not available when an image could not be pulled.
    pub missing_secrets: Vec<String>,
    /// The latest time of the next sync; `None` while working.
    pub next_work: Option<Timestamp>,
}

impl Doing {
    /// Nothing yet.
    pub(super) fn nothing(now: Timestamp) -> Self {
        Self {
            activity: Activity::Idle,
            since: now,
            pulling: BTreeMap::new(),
            retries: BTreeMap::new(),
            missing_secrets: Vec::new(),
            next_work: None,
        }
    }
}
