//! What a pod's status is made from.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::PodStatus as ApiPodStatus;

use crate::pleg::PodStatus;
use crate::pod::{AdmittedPod, StatusOverride, WaitingReason};
use crate::types::ContainerId;

/// How far the pod's life has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LifecycleSummary {
    /// Its containers may be started.
    Active,
    /// It is being stopped: nothing is started any more, so nothing is waiting to be.
    Terminating,
    /// All its containers are proven stopped, and none is started again whatever its restart policy.
    Terminated,
}

/// Everything that shows in a pod's status.
#[derive(Clone, Copy, Debug)]
pub struct StatusInput<'a> {
    /// The pod: its metadata and spec; its status is not read.
    pub pod: &'a AdmittedPod,
    /// What the runtime has of it.
    pub observed: &'a PodStatus,
    /// Why the last sync could not start a container, by container name; gone once it started.
    pub reasons: &'a BTreeMap<String, WaitingReason>,
    /// The containers that are being started now, by name.
    pub starting: &'a BTreeSet<String>,
    /// What ended containers wrote to their termination logs (or logged last, where asked for).
    pub termination_messages: &'a BTreeMap<ContainerId, String>,
    /// Why the last sync could not make the sandbox.
    pub sandbox_error: Option<&'a str>,
    /// How far its life has come.
    pub lifecycle: LifecycleSummary,
    /// What a killer, e.g. eviction, wants the pod to end as.
    pub status_override: Option<&'a StatusOverride>,
    /// The status generated before in this life of the pod.
    pub previous: Option<&'a ApiPodStatus>,
    /// The time, for what changes now.
    pub now: Timestamp,
    /// Scheme of container IDs, e.g. `containerd`.
    pub runtime_name: &'a str,
    /// Addresses of the node, primary first.
    pub host_ips: &'a [IpAddr],
}
