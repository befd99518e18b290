//! In-place resize: what differs between the allocated resources of a pod and those that were last enforced, and the order in
//! which they are enforced, which is the stock kubelet's (`doPodResizeAction`): memory before CPU, the pod's cgroup before its
//! containers where it grows and after them where it shrinks, and of the containers first those that shrink. So the containers
//! never have more than their pod.

use k8s_openapi::api::core::v1::Container;

use super::input::{PlanInput, is_in};
use super::kill::Kill;
use hostlet_base::{ContainerId, SandboxId};
use hostlet_pod::ContainerRef;
use hostlet_pod::resources::{Enforced, Resizable};
use hostlet_runtime::cri::ContainerState;

/// One step of a resize.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::worker) enum ResizeStep {
    /// Set the pod's cgroup to these resources of the whole pod.
    Pod(Enforced),
    /// Update a running container.
    Container {
        /// Which instance.
        id: ContainerId,
        /// Of which container.
        container: ContainerRef,
        /// To these resources.
        to: Enforced,
    },
}

/// A limit of memory that becomes lower: it must not be lower than what is in use.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::worker) struct LowerLimit {
    /// The running container; `None` for the pod.
    pub(in crate::worker) container: Option<ContainerId>,
    /// The new limit, bytes.
    pub(in crate::worker) bytes: i64,
}

/// The resize of a pod in the sandbox that is kept.
#[derive(Clone, Debug, Default, PartialEq)]
pub(in crate::worker) struct Resize {
    /// What to do, in order.
    pub(in crate::worker) steps: Vec<ResizeStep>,
    /// What must hold before.
    pub(in crate::worker) lower: Vec<LowerLimit>,
    /// Whether anything is to be resized, be it by a restart.
    pub(in crate::worker) is_under_way: bool,
}

/// The resources of a running container that change.
struct Change {
    id: ContainerId,
    container: ContainerRef,
    from: Enforced,
    to: Enforced,
}

impl PlanInput<'_> {
    /// What was last enforced for the running instance of a container, and what is to be.
    fn resources(&self, container: &Container) -> (Enforced, Enforced) {
        let from = self.actuated.containers.get(&container.name).copied().unwrap_or_default();
        (from, Enforced::of(self.pod, container))
    }

    /// The restart that a container's resize policy demands for its new resources, of an instance that runs as it should
    /// otherwise.
    pub(super) fn restarts_to_resize(&self, container: &Container) -> bool {
        let (from, to) = self.resources(container);
        let differs = |resource: Resizable| from.amounts(resource) != to.amounts(resource);
        let policies = container.resize_policy.as_deref().unwrap_or_default();
        [Resizable::Cpu, Resizable::Memory].into_iter().filter(|resource| differs(*resource)).any(
            |resource| {
                let policy = policies.iter().find(|policy| policy.resource_name == resource.name());
                policy.is_some_and(|policy| policy.restart_policy == "RestartContainer")
            },
        )
    }
}

/// The resize of a pod whose unwanted instances are `kills`.
pub(super) fn resize(input: &PlanInput<'_>, sandbox: &SandboxId, kills: &[Kill]) -> Resize {
    let mut changes = Vec::new();
    let mut restarts = false;
    for container in input.pod.containers() {
        let running = input.observed.container(&container.spec.name);
        let running = running.filter(|c| c.state == ContainerState::Running && is_in(c, sandbox));
        let Some(running) = running else { continue };
        let (from, to) = input.resources(container.spec);
        if from == to {
            continue;
        }
        match kills.iter().any(|kill| kill.id == running.id) {
            // Its next instance is created with them.
            true => restarts = true,
            false => {
                changes.push(Change { id: running.id.clone(), container: container.reference(), from, to })
            }
        }
    }
    let desired = Enforced::of_pod(input.pod);
    let current = input.actuated.pod.unwrap_or(desired);
    let desired = over(desired, current);
    let steps = steps(current, desired, &changes);
    let is_under_way = restarts || !steps.is_empty();
    Resize { lower: lower(current, desired, &changes), steps, is_under_way }
}

/// What to change a pod to. A limit that is no longer set stays, as upstream: the API server permits no removal of limits.
fn over(desired: Enforced, current: Enforced) -> Enforced {
    let kept = |new: i64, old: i64| if new == 0 { old } else { new };
    Enforced {
        cpu_limit: kept(desired.cpu_limit, current.cpu_limit),
        memory_limit: kept(desired.memory_limit, current.memory_limit),
        ..desired
    }
}

fn steps(current: Enforced, desired: Enforced, changes: &[Change]) -> Vec<ResizeStep> {
    let more_memory = Enforced {
        memory_limit: higher(current.memory_limit, desired.memory_limit),
        memory_request: current.memory_request.max(desired.memory_request),
        ..current
    };
    let other_memory = current.with(Resizable::Memory, desired);
    let more_cpu = Enforced {
        cpu_limit: higher(current.cpu_limit, desired.cpu_limit),
        cpu_request: current.cpu_request.max(desired.cpu_request),
        ..other_memory
    };
    let pod = |from: Enforced, to: Enforced| (from != to).then_some(ResizeStep::Pod(to));
    let mut steps = Vec::new();
    steps.extend(pod(current, more_memory));
    steps.extend(updates(Resizable::Memory, changes));
    steps.extend(pod(more_memory, other_memory));
    steps.extend(pod(other_memory, more_cpu));
    steps.extend(updates(Resizable::Cpu, changes));
    steps.extend(pod(more_cpu, desired));
    steps
}

/// The updates of one resource, of the containers that shrink first.
fn updates(resource: Resizable, changes: &[Change]) -> Vec<ResizeStep> {
    let concerned = |change: &&Change| change.from.amounts(resource) != change.to.amounts(resource);
    let (shrinking, growing): (Vec<&Change>, Vec<&Change>) =
        changes.iter().filter(concerned).partition(|change| shrinks(resource, change));
    let step = |change: &Change| {
        let to = match resource {
            Resizable::Memory => change.from.with(Resizable::Memory, change.to),
            // Its memory was updated before.
            Resizable::Cpu => change.to,
        };
        ResizeStep::Container { id: change.id.clone(), container: change.container.clone(), to }
    };
    shrinking.into_iter().chain(growing).map(step).collect()
}

fn shrinks(resource: Resizable, change: &Change) -> bool {
    let ((old_request, old), (request, new)) = (change.from.amounts(resource), change.to.amounts(resource));
    match old == new {
        true => request < old_request,
        false => is_lower(limit(old), limit(new)),
    }
}

/// The limits of memory that become lower.
fn lower(current: Enforced, desired: Enforced, changes: &[Change]) -> Vec<LowerLimit> {
    let lowered = |from: Enforced, to: Enforced| {
        limit(to.memory_limit).filter(|new| is_lower(limit(from.memory_limit), Some(*new)))
    };
    let pod = lowered(current, desired).map(|bytes| LowerLimit { container: None, bytes });
    let containers = changes.iter().filter_map(|change| {
        let bytes = lowered(change.from, change.to)?;
        Some(LowerLimit { container: Some(change.id.clone()), bytes })
    });
    pod.into_iter().chain(containers).collect()
}

/// A limit as it is enforced: 0 is none.
fn limit(amount: i64) -> Option<i64> {
    Some(amount).filter(|amount| *amount != 0)
}

/// Whether `new` limits more than `old`.
fn is_lower(old: Option<i64>, new: Option<i64>) -> bool {
    match (old, new) {
        (Some(old), Some(new)) => new < old,
        (None, Some(_)) => true,
        (_, None) => false,
    }
}

/// The limit that limits less.
fn higher(a: i64, b: i64) -> i64 {
    if a == 0 || b == 0 { 0 } else { a.max(b) }
}
