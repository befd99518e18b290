//! Remembers what was last enforced of a pod's resources, across restarts of the daemon: a runtime need not report it, and
//! requests of memory are enforced nowhere. Enforces nothing itself.

use hostlet_base::{PodRef, PodUid};
use hostlet_observe::pleg::PodStatus;
use hostlet_pod::AdmittedPod;
use hostlet_pod::resources::{Actuated, Enforced, ResizeUnderWay};
use hostlet_runtime::cri::ContainerState;
use hostlet_store::{Store, Table};

use super::context::WorkerContext;

/// What was last enforced of one pod's resources.
pub(super) struct ActuatedRecord {
    pod: PodUid,
    store: Store,
    actuated: Actuated,
    /// How many allocated resizes were seen.
    allocations: u32,
}

impl ActuatedRecord {
    /// Reads what an earlier daemon stored.
    pub(super) fn read(context: &WorkerContext, pod: &PodRef) -> Self {
        let actuated = context.store.get(Table::Actuated, pod.uid.as_str()).unwrap_or_default();
        Self { pod: pod.uid.clone(), store: context.store.clone(), actuated, allocations: 0 }
    }

    /// What was last enforced.
    pub(super) fn get(&self) -> &Actuated {
        &self.actuated
    }

    /// Begins work on the pod. A container that runs and was never recorded was started by an earlier version of hostlet, with
    /// the resources that are allocated unless a resize has just been allocated. A new allocation begins a new resize.
    pub(super) fn work_begins(&mut self, pod: &AdmittedPod, observed: &PodStatus) {
        if pod.resize.allocations == 0 {
            let unknown = |name: &str| {
                let runs = observed.container(name).is_some_and(|seen| seen.state == ContainerState::Running);
                runs && !self.actuated.containers.contains_key(name)
            };
            let unknown: Vec<_> = pod.containers().filter(|it| unknown(&it.spec.name)).collect();
            for container in unknown {
                self.set_container(&container.spec.name, Enforced::of(pod, container.spec));
            }
        }
        if pod.resize.allocations != self.allocations {
            self.allocations = pod.resize.allocations;
            self.actuated.resize = Some(ResizeUnderWay { generation: pod.metadata.generation, error: None });
            self.store();
        }
    }

    /// A container is created with these resources, or updated to them.
    pub(super) fn set_container(&mut self, name: &str, enforced: Enforced) {
        self.actuated.containers.insert(name.to_owned(), enforced);
        self.store();
    }

    /// The pod's cgroup has these resources of the whole pod.
    pub(super) fn set_pod(&mut self, whole: Enforced) {
        self.actuated.pod = Some(whole);
        self.store();
    }

    /// Notes that a resize is under way.
    pub(super) fn resizes(&mut self, pod: &AdmittedPod) {
        if self.actuated.resize.is_none() {
            self.actuated.resize = Some(ResizeUnderWay { generation: pod.metadata.generation, error: None });
            self.store();
        }
    }

    /// Notes why the resize failed; returns its generation if that is news.
    pub(super) fn failed(&mut self, error: &str) -> Option<Option<i64>> {
        let resize = self.actuated.resize.as_mut().filter(|resize| resize.error.as_deref() != Some(error))?;
        resize.error = Some(error.to_owned());
        let generation = resize.generation;
        self.store();
        Some(generation)
    }

    /// Nothing is to be resized anymore. Returns the resize that has completed, if one was under way.
    pub(super) fn completed(&mut self) -> Option<ResizeUnderWay> {
        let completed = self.actuated.resize.take()?;
        self.store();
        Some(completed)
    }

    fn store(&self) {
        self.store.put(Table::Actuated, self.pod.as_str(), &self.actuated);
    }
}
