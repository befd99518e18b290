//! An admitted pod, with the fields that every room needs parsed once. Immutable: an updated pod is a new value.

use std::ops::Deref;
use std::sync::{Arc, LazyLock};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Container, Pod, PodSpec};

use super::resources::qos_class;
use super::{
    ContainerKind, ContainerRef, PodContainer, PodPhase, Rank, RestartPolicy, is_static, pod_ref, seen_at,
};
use crate::types::{PodRef, QosClass};

static NO_SPEC: LazyLock<PodSpec> = LazyLock::new(PodSpec::default);

/// An admitted pod. Dereferences to the API object, for builders that translate it.
#[derive(Debug, PartialEq)]
pub struct AdmittedPod {
    object: Arc<Pod>,
    /// Namespace, name and UID.
    pub reference: PodRef,
    /// Whether it is a static pod: from a source on this host, not from the API server.
    pub is_static: bool,
    /// Whether it shares the host's network namespace.
    pub host_network: bool,
    /// `restartPolicy`, for containers without their own.
    pub restart_policy: RestartPolicy,
    /// Its rank among pods that wait for the same resource.
    pub rank: Rank,
    /// Its QoS class, which decides on its cgroup.
    pub qos: QosClass,
    /// When its source first saw it, if known.
    pub seen_at: Option<Timestamp>,
    /// `terminationGracePeriodSeconds`; `None` only if it was not defaulted.
    pub grace_seconds: Option<i64>,
}

impl AdmittedPod {
    /// Parses the pod.
    pub fn new(object: impl Into<Arc<Pod>>) -> Arc<Self> {
        let object = object.into();
        let spec = object.spec.as_ref().unwrap_or(&NO_SPEC);
        Arc::new(Self {
            reference: pod_ref(&object),
            is_static: is_static(&object),
            host_network: spec.host_network.unwrap_or(false),
            restart_policy: RestartPolicy::of(&object),
            rank: Rank::of(&object),
            qos: qos_class(&object),
            seen_at: seen_at(&object),
            grace_seconds: spec.termination_grace_period_seconds,
            object,
        })
    }

    /// The object from its source.
    pub fn object(&self) -> &Arc<Pod> {
        &self.object
    }

    /// Whether it is marked for deletion.
    pub fn is_deleted(&self) -> bool {
        self.object.metadata.deletion_timestamp.is_some()
    }

    /// Whether the status from its source has a terminal phase.
    pub fn has_ended(&self) -> bool {
        let phase = self.object.status.as_ref().and_then(|status| PodPhase::parse(status.phase.as_deref()?));
        phase.is_some_and(PodPhase::is_terminal)
    }

    /// The pod's spec.
    pub fn spec(&self) -> &PodSpec {
        self.object.spec.as_ref().unwrap_or(&NO_SPEC)
    }

    /// Its init containers in order, including sidecars.
    pub fn init_containers(&self) -> &[Container] {
        self.spec().init_containers.as_deref().unwrap_or_default()
    }

    /// Its init containers and sidecars in order, then its main containers in order.
    pub fn containers(&self) -> impl Iterator<Item = PodContainer<'_>> {
        self.init_containers().iter().map(PodContainer::init).chain(self.main_containers())
    }

    /// Its main containers, in order.
    pub fn main_containers(&self) -> impl Iterator<Item = PodContainer<'_>> {
        self.spec().containers.iter().map(PodContainer::main)
    }

    /// The container with this name and kind; `None` if there is none, or it is ephemeral.
    pub fn container(&self, named: &ContainerRef) -> Option<PodContainer<'_>> {
        self.containers().find(|container| container.kind == named.kind && container.spec.name == named.name)
    }

    /// The kind of the container with this name, including ephemeral ones.
    pub fn kind_of(&self, name: &str) -> Option<ContainerKind> {
        let listed = self.containers().find(|container| container.spec.name == name);
        let mut ephemeral = self.spec().ephemeral_containers.iter().flatten();
        let kind = listed.map(|container| container.kind);
        kind.or_else(|| ephemeral.any(|container| container.name == name).then_some(ContainerKind::Ephemeral))
    }
}

#[cfg(test)]
impl AdmittedPod {
    /// The pod after a change to its object.
    pub(crate) fn edited(&self, edit: impl FnOnce(&mut Pod)) -> Arc<Self> {
        let mut object = Pod::clone(self);
        edit(&mut object);
        Self::new(object)
    }
}

impl Deref for AdmittedPod {
    type Target = Pod;

    fn deref(&self) -> &Pod {
        &self.object
    }
}
