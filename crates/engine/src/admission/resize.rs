//! Decides on requested in-place resizes (KEP-1287): one is allocated if the pod with the desired resources could be admitted
//! now, else it stays pending and is decided on again whenever something changed. Pure.

use std::cmp::Reverse;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Container, Pod, Volume};

use hostlet_base::resources::MEMORY;
use hostlet_base::{PodEvent, QosClass, Quantity};
use hostlet_pod::resources::{Amounts, may_swap, pod_requests, qos_class};
use hostlet_pod::view::PodView;
use hostlet_pod::{PendingResize, PendingResizeReason, Rejection, resize_message};
use hostlet_resources::{InfeasibleResize, infeasible_resize};

/// Upstream's condition of a pending resize, which the status reports.
const RESIZE_PENDING: &str = "PodResizePending";

/// The place of a requested resize among those to decide on, in upstream's order: first what needs no more of the node, then
/// by priority, then guaranteed pods, then the one that is pending for longest.
pub(super) fn turn(
    desired: &Pod,
    allocated: &Pod,
    pending: Option<&PendingResize>,
) -> (bool, Reverse<i32>, bool, bool, Option<Timestamp>) {
    let (new, old) = (pod_requests(desired), pod_requests(allocated));
    let grows = new.milli_cpu.unwrap_or(0) > old.milli_cpu.unwrap_or(0)
        || new.memory.unwrap_or(0) > old.memory.unwrap_or(0);
    let priority = PodView::from(desired).spec.priority.unwrap_or(0);
    let since = pending.map(|pending| pending.since);
    (grows, Reverse(priority), qos_class(desired) != QosClass::Guaranteed, since.is_none(), since)
}

/// What no pod of this node can be resized in.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ResizeLimits {
    /// Whether containers may swap.
    pub has_swap: bool,
    /// Whether guaranteed pods have CPUs for themselves.
    pub static_cpus: bool,
    /// Whether guaranteed pods have memory of certain NUMA nodes.
    pub static_memory: bool,
}

impl ResizeLimits {
    /// Why a resize is never done on this node, and upstream's label of that in metrics.
    pub(super) fn infeasible(self, desired: &Pod, allocated: &Pod) -> Option<(Rejection, &'static str)> {
        let swap = || changes_swap(desired, allocated).map(|message| (message.to_owned(), "swap_limitation"));
        let (cpus, memory) = (self.static_cpus, self.static_memory);
        let exclusive = || {
            infeasible_resize(allocated, desired, cpus, memory).map(|infeasible| match infeasible {
                InfeasibleResize::Cpus => {
                    (infeasible.to_string(), "guaranteed_pod_cpu_manager_static_policy")
                }
                InfeasibleResize::Memory => {
                    (infeasible.to_string(), "guaranteed_pod_memory_manager_static_policy")
                }
            })
        };
        let (message, label) = self.has_swap.then(swap).flatten().or_else(exclusive)?;
        Some((Rejection::new(PendingResizeReason::Infeasible.as_str(), message), label))
    }
}

/// Why a container that may swap is not resized: its share of swap follows from its request of memory, and is not changed while it runs.
fn changes_swap(desired: &Pod, allocated: &Pod) -> Option<&'static str> {
    let before: Vec<&Container> = containers(allocated).collect();
    let changes_swap = containers(desired).any(|container| {
        let Some(before) = before.iter().find(|before| before.name == container.name) else { return false };
        let request = |container: &Container| Amounts::requested(container.resources.as_ref()).memory;
        request(container) != request(before)
            && !restarts_for_memory(before)
            && (may_swap(desired, container) || may_swap(allocated, before))
    });
    changes_swap.then_some("In-place resize of containers with swap is not supported.")
}

/// Upstream's event of an update that needs a feature which this node does not declare (KEP-5328): another size of a
/// volume in memory, which keeps the size that it was mounted with. The others that an update may need are declared.
pub(super) fn undeclared(desired: &Pod, before: &Pod) -> Option<PodEvent> {
    let volumes = |pod| PodView::from(pod).spec.volumes.as_deref().unwrap_or_default();
    let size = |volume: &Volume| Quantity::parse(&volume.empty_dir.as_ref()?.size_limit.as_ref()?.0).ok();
    let is_in_memory = |volume: &Volume| {
        volume.empty_dir.as_ref().is_some_and(|volume| volume.medium.as_deref() == Some("Memory"))
    };
    let mut pairs = volumes(desired).iter().zip(volumes(before));
    let resizes = pairs.any(|(new, old)| {
        let sizes = size(new).zip(size(old));
        new.name == old.name && is_in_memory(new) && sizes.is_some_and(|(new, old)| new != old)
    });
    let message =
        "Pod requires node features that are not available: InPlacePodVerticalScalingMemoryBackedVolumes";
    resizes.then(|| PodEvent::warning("FailedNodeDeclaredFeaturesCheck", message))
}

fn containers(pod: &Pod) -> impl Iterator<Item = &Container> {
    let view = PodView::from(pod);
    view.spec.containers.iter().chain(view.init_containers())
}

fn restarts_for_memory(container: &Container) -> bool {
    let mut policies = container.resize_policy.iter().flatten();
    let policy = policies.find(|policy| policy.resource_name == MEMORY);
    policy.is_some_and(|policy| policy.restart_policy == "RestartContainer")
}

/// The event of a resize that was allocated.
pub(super) fn started(desired: &Pod) -> PodEvent {
    PodEvent::normal("ResizeStarted", resize_message("started", desired, generation(desired), ""))
}

/// A resize that is refused now, and upstream's event about it if that is news. `before` is how it was pending until now.
pub(super) fn refused(
    desired: &Pod,
    reason: PendingResizeReason,
    why: &Rejection,
    before: Option<&PendingResize>,
    now: Timestamp,
) -> (PendingResize, Option<PodEvent>) {
    let known = before.filter(|before| before.reason == reason);
    let since = known.map(|known| known.since).or_else(|| reported_since(desired, reason)).unwrap_or(now);
    let generation = generation(desired);
    let pending = PendingResize { reason, message: why.message.clone(), generation, since };
    let is_news = known.is_none_or(|known| known.generation != generation);
    let event = is_news.then(|| {
        let message = resize_message(&why.reason, desired, generation, &why.message);
        let reason = match reason {
            PendingResizeReason::Deferred => "ResizeDeferred",
            PendingResizeReason::Infeasible => "ResizeInfeasible",
        };
        PodEvent::warning(reason, message)
    });
    (pending, event)
}

/// Since when an earlier daemon reported the resize as pending for this reason.
fn reported_since(desired: &Pod, reason: PendingResizeReason) -> Option<Timestamp> {
    let conditions = desired.status.as_ref()?.conditions.as_ref()?;
    let reported = conditions.iter().find(|condition| condition.type_ == RESIZE_PENDING)?;
    let is_same = reported.reason.as_deref() == Some(reason.as_str());
    reported.last_transition_time.as_ref().filter(|_| is_same).map(|time| time.0)
}

fn generation(pod: &Pod) -> Option<i64> {
    pod.metadata.generation.filter(|generation| *generation != 0)
}
