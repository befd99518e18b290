//! What a worker is doing about its pod at this moment, and when it does the next thing. Shown to people; nothing is
//! decided by it.

use std::collections::BTreeMap;

use jiff::Timestamp;

/// The step a worker is at.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Activity {
    /// Nothing: the pod is as it should be, or its next step was not begun.
    #[default]
    Idle,
    /// Waits at the start gate, behind starts of other pods.
    WaitingForTurn,
    /// Has the pod's volumes set up.
    SettingUpVolumes,
    /// Has the runtime make the sandbox and its network.
    MakingSandbox,
    /// Has the runtime pull an image, or waits for a pull's turn.
    PullingImage {
        /// For which container.
        container: String,
        /// The image as the spec names it.
        image: String,
    },
    /// Has the runtime make a container.
    CreatingContainer {
        /// Its name.
        container: String,
    },
    /// Has the runtime start a container.
    StartingContainer {
        /// Its name.
        container: String,
    },
    /// Waits for containers to end.
    StoppingContainers {
        /// Seconds they may take before they are killed.
        grace_seconds: i64,
    },
    /// Has the runtime take down the sandbox and its network.
    StoppingSandbox,
    /// Removes what the pod left: containers, logs, directories, cgroup.
    CleaningUp,
    /// Waits out the back-off of containers that ended.
    BackingOff,
    /// The last work failed, and is tried again.
    Retrying {
        /// Why it failed, where something was told of it.
        error: Option<String>,
    },
}

/// What is done about a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Doing {
    /// The step its worker is at.
    pub activity: Activity,
    /// Since when.
    pub since: Timestamp,
    /// When what failed for a container is tried again at the earliest, by its name: a restart, a pull.
    pub retries: BTreeMap<String, Timestamp>,
    /// When the worker begins its next work at the latest; none while it works.
    pub next_work: Option<Timestamp>,
}
