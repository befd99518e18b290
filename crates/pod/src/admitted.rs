//! An admitted pod, with the fields that everybody needs parsed once. Immutable: an updated pod is a new value. Its resources
//! are the allocated ones.

use std::ops::Deref;
use std::sync::{Arc, LazyLock};

use hostlet_base::{PodRef, QosClass};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Container, EphemeralContainer, ImageVolumeSource, Pod, PodSpec, Volume};

use super::resources::qos_class;
use super::{
    ContainerKind, ContainerRef, PodContainer, Rank, ResizeState, RestartPolicy, has_ended, is_static,
    pod_ref, seen_at,
};

static NO_SPEC: LazyLock<PodSpec> = LazyLock::new(PodSpec::default);

/// Which admission a version of a pod belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AdmissionId {
    /// One by an earlier daemon.
    Adopted,
    /// One by an earlier daemon; no source named the pod anymore when that ended.
    Dropped,
    /// The admission of this number by this daemon.
    Number(u64),
}

/// An admitted pod. Dereferences to the API object, for builders that translate it.
#[derive(Debug, PartialEq)]
pub struct AdmittedPod {
    object: Arc<Pod>,
    /// Its in-place resizes.
    pub resize: ResizeState,
    /// Its admission, which all versions of the pod share: if it is removed and put back under its UID, that is another one.
    pub admission: AdmissionId,
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
    /// Its ephemeral containers, in the form of the others.
    ephemeral: Vec<Container>,
}

impl AdmittedPod {
    /// Parses a pod that was never resized.
    pub fn new(object: impl Into<Arc<Pod>>) -> Arc<Self> {
        Self::resized(object, ResizeState::default(), AdmissionId::Adopted)
    }

    /// Parses a pod with its allocated resources.
    pub fn resized(object: impl Into<Arc<Pod>>, resize: ResizeState, admission: AdmissionId) -> Arc<Self> {
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
            ephemeral: spec.ephemeral_containers.iter().flatten().map(as_container).collect(),
            object,
            resize,
            admission,
        })
    }

    /// The pod with other allocated resources.
    pub fn resized_to(&self, object: &Arc<Pod>, resize: ResizeState) -> Arc<Self> {
        Self::resized(object.clone(), resize, self.admission)
    }

    /// The object from its source, with the allocated resources.
    pub fn object(&self) -> &Arc<Pod> {
        &self.object
    }

    /// Whether it is marked for deletion.
    pub fn is_deleted(&self) -> bool {
        self.object.metadata.deletion_timestamp.is_some()
    }

    /// Whether the status from its source has a terminal phase.
    pub fn has_ended(&self) -> bool {
        self.object.status.as_ref().is_some_and(has_ended)
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

    /// Its ephemeral containers, in order.
    pub fn ephemeral_containers(&self) -> impl Iterator<Item = PodContainer<'_>> {
        self.ephemeral.iter().map(PodContainer::ephemeral)
    }

    /// [`AdmittedPod::containers`], then the ephemeral containers.
    pub fn all_containers(&self) -> impl Iterator<Item = PodContainer<'_>> {
        self.containers().chain(self.ephemeral_containers())
    }

    /// Its image volumes by name, in order.
    pub fn image_volumes(&self) -> impl Iterator<Item = (&str, &ImageVolumeSource)> {
        let volumes = self.spec().volumes.iter().flatten();
        volumes.filter_map(|volume| Some((volume.name.as_str(), volume.image.as_ref()?)))
    }

    /// Its volumes with a path on the host: all but images, which the runtime mounts.
    pub fn host_volumes(&self) -> impl Iterator<Item = &Volume> {
        self.spec().volumes.iter().flatten().filter(|volume| volume.image.is_none())
    }

    /// The container with this name and kind.
    pub fn container(&self, named: &ContainerRef) -> Option<PodContainer<'_>> {
        let mut all = self.all_containers();
        all.find(|container| container.kind == named.kind && container.spec.name == named.name)
    }

    /// Whether the container with this name is a main, init, sidecar or ephemeral one; `None` if the pod has no such container.
    pub fn kind_of(&self, name: &str) -> Option<ContainerKind> {
        self.all_containers().find(|container| container.spec.name == name).map(|container| container.kind)
    }

    /// Refers to the container with this name in events; `None` if the pod has no such container.
    pub fn reference_to(&self, name: &str) -> Option<ContainerRef> {
        self.kind_of(name).map(|kind| ContainerRef { kind, name: name.to_owned() })
    }
}

/// The fields that an ephemeral container shares with the others.
fn as_container(ephemeral: &EphemeralContainer) -> Container {
    let it = ephemeral.clone();
    Container {
        args: it.args,
        command: it.command,
        env: it.env,
        env_from: it.env_from,
        image: it.image,
        image_pull_policy: it.image_pull_policy,
        lifecycle: it.lifecycle,
        liveness_probe: it.liveness_probe,
        name: it.name,
        ports: it.ports,
        readiness_probe: it.readiness_probe,
        resize_policy: it.resize_policy,
        resources: it.resources,
        restart_policy: it.restart_policy,
        restart_policy_rules: it.restart_policy_rules,
        security_context: it.security_context,
        startup_probe: it.startup_probe,
        stdin: it.stdin,
        stdin_once: it.stdin_once,
        termination_message_path: it.termination_message_path,
        termination_message_policy: it.termination_message_policy,
        tty: it.tty,
        volume_devices: it.volume_devices,
        volume_mounts: it.volume_mounts,
        working_dir: it.working_dir,
    }
}

#[cfg(any(test, feature = "fakes"))]
impl AdmittedPod {
    /// The pod after a change to its object.
    pub fn edited(&self, edit: impl FnOnce(&mut Pod)) -> Arc<Self> {
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
