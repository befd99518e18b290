//! The inputs of a pod's status.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use hostlet_base::ContainerId;
use hostlet_pod::resources::Actuated;
use hostlet_pod::{AdmittedPod, PodProbes, StatusOverride, WaitingReason};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{PodStatus as ApiPodStatus, ResourceStatus};

use super::ImagePull;
use crate::pleg::PodStatus;

/// The phase of a pod's lifecycle, as far as its status depends on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LifecycleSummary {
    /// Its containers may be started.
    Active,
    /// It is being stopped: nothing is started anymore, so no container is waiting to start.
    Terminating,
    /// All its containers are known to be stopped; none is restarted, whatever its restart policy.
    Terminated,
}

/// What statuses show only with a feature gate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StatusGates {
    /// The signals that stop containers (`ContainerStopSignals`).
    pub stop_signals: bool,
    /// The images of image volumes (`ImageVolumeWithDigest`).
    pub image_volumes: bool,
}

/// Everything that a pod's status depends on.
#[derive(Clone, Copy, Debug)]
pub(super) struct StatusInput<'a> {
    /// The pod: its metadata and spec; its status is not read.
    pub(super) pod: &'a AdmittedPod,
    /// Its observed state.
    pub(super) observed: &'a PodStatus,
    /// Waiting reasons from the last sync, by container name; removed once the container started.
    pub(super) reasons: &'a BTreeMap<String, WaitingReason>,
    /// Names of the containers that are being started.
    pub(super) starting: &'a BTreeSet<String>,
    /// Termination messages (or last log lines, under `FallbackToLogsOnError`).
    pub(super) termination_messages: &'a BTreeMap<ContainerId, String>,
    /// What its probes have found.
    pub(super) probes: &'a PodProbes,
    /// Why the last sync could not set up the volumes or the sandbox.
    pub(super) setup_error: Option<&'a str>,
    /// By the container that waits for it: an image that is being pulled.
    pub(super) pulling: &'a BTreeMap<String, ImagePull>,
    /// What is enforced of its resources while a resize is under way; otherwise, what is allocated.
    pub(super) actuated: Option<&'a Actuated>,
    /// The health of devices that its containers use, by container.
    pub(super) device_health: &'a BTreeMap<String, Vec<ResourceStatus>>,
    /// Whether its runtime handler supports recursive read-only mounts.
    pub(super) recursive_read_only: bool,
    /// The phase of its lifecycle.
    pub(super) lifecycle: LifecycleSummary,
    /// The final status that a kill, e.g. an eviction, sets.
    pub(super) status_override: Option<&'a StatusOverride>,
    /// The status generated before in this lifecycle.
    pub(super) previous: Option<&'a ApiPodStatus>,
    /// The time of transitions that happen now.
    pub(super) now: Timestamp,
    /// Scheme of container IDs, e.g. `containerd`.
    pub(super) runtime_name: &'a str,
    /// Addresses of the node, primary first.
    pub(super) host_ips: &'a [IpAddr],
    /// What it shows only with a feature gate.
    pub(super) gates: StatusGates,
}
