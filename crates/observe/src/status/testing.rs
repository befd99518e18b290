//! An input of the status generator that tests change as they need.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use hostlet_base::ContainerId;
use hostlet_pod::resources::Actuated;
use hostlet_pod::{AdmittedPod, PodProbes, StatusOverride, WaitingReason, pod_ref, testing};
use hostlet_runtime::cri::{ContainerStatus, SandboxState};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Pod, PodStatus as ApiPodStatus, ResourceStatus};

use super::generate::generate;
use super::input::StatusInput;
use super::{ImagePull, LifecycleSummary, StatusGates};
use crate::pleg::PodStatus;

/// Owns what a [`StatusInput`] borrows: an active pod with a ready sandbox and the given containers, newest first.
pub(super) struct Scene {
    pub(super) pod: Arc<AdmittedPod>,
    pub(super) observed: PodStatus,
    pub(super) reasons: BTreeMap<String, WaitingReason>,
    pub(super) starting: BTreeSet<String>,
    pub(super) messages: BTreeMap<ContainerId, String>,
    pub(super) probes: PodProbes,
    pub(super) setup_error: Option<String>,
    pub(super) pulling: BTreeMap<String, ImagePull>,
    pub(super) actuated: Option<Actuated>,
    pub(super) device_health: BTreeMap<String, Vec<ResourceStatus>>,
    pub(super) recursive_read_only: bool,
    pub(super) lifecycle: LifecycleSummary,
    pub(super) status_override: Option<StatusOverride>,
    pub(super) previous: Option<ApiPodStatus>,
    pub(super) now: Timestamp,
    pub(super) host_ips: Vec<IpAddr>,
    pub(super) gates: StatusGates,
}

impl Scene {
    pub(super) fn new(pod: Pod, containers: Vec<ContainerStatus>) -> Self {
        let sandbox = testing::sandbox(0, SandboxState::Ready);
        let observed = PodStatus {
            ips: sandbox.ips.clone(),
            sandboxes: vec![sandbox],
            containers,
            ..PodStatus::empty(pod_ref(&pod))
        };
        Self {
            pod: AdmittedPod::new(pod),
            observed,
            reasons: BTreeMap::new(),
            starting: BTreeSet::new(),
            messages: BTreeMap::new(),
            probes: PodProbes::default(),
            setup_error: None,
            pulling: BTreeMap::new(),
            actuated: None,
            device_health: BTreeMap::new(),
            recursive_read_only: false,
            lifecycle: LifecycleSummary::Active,
            status_override: None,
            previous: None,
            now: Timestamp::from_second(10_000).unwrap(),
            host_ips: vec!["192.0.2.1".parse().unwrap()],
            gates: StatusGates::default(),
        }
    }

    /// A pod of this policy with one container `c`.
    pub(super) fn of(policy: &str, containers: Vec<ContainerStatus>) -> Self {
        Self::new(testing::pod("web", "u", policy, &["c"]), containers)
    }

    pub(super) fn waiting_for(mut self, container: &str, reason: &str) -> Self {
        let why = WaitingReason { reason: reason.into(), message: format!("{reason} it is") };
        self.reasons.insert(container.into(), why);
        self
    }

    pub(super) fn with_init(mut self, name: &str, sidecar: bool) -> Self {
        let mut init = self.pod.spec().containers[0].clone();
        init.name = name.into();
        init.restart_policy = sidecar.then(|| "Always".into());
        self.edit(|pod| pod.spec.get_or_insert_default().init_containers.get_or_insert_default().push(init));
        self
    }

    /// Changes the pod's object.
    pub(super) fn edit(&mut self, edit: impl FnOnce(&mut Pod)) {
        self.pod = self.pod.edited(edit);
    }

    pub(super) fn input(&self) -> StatusInput<'_> {
        StatusInput {
            pod: &self.pod,
            observed: &self.observed,
            reasons: &self.reasons,
            starting: &self.starting,
            termination_messages: &self.messages,
            probes: &self.probes,
            setup_error: self.setup_error.as_deref(),
            pulling: &self.pulling,
            actuated: self.actuated.as_ref(),
            device_health: &self.device_health,
            recursive_read_only: self.recursive_read_only,
            lifecycle: self.lifecycle,
            status_override: self.status_override.as_ref(),
            previous: self.previous.as_ref(),
            now: self.now,
            runtime_name: "containerd",
            host_ips: &self.host_ips,
            gates: self.gates,
        }
    }

    pub(super) fn status(&self) -> ApiPodStatus {
        generate(&self.input())
    }

    /// Generates, and takes the result for the previous status of the next generation a minute later.
    pub(super) fn step(&mut self) -> ApiPodStatus {
        let status = self.status();
        self.previous = Some(status.clone());
        self.now += jiff::SignedDuration::from_mins(1);
        status
    }
}
