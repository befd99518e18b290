//! What a pod needs: desired × observed × now → actions. Pure.
//!
//! The order of the rules is that of the stock kubelet's `computePodActions`. Removing dead containers and sandboxes is part
//! of the plan; a plan applied to its own result is empty.

use std::borrow::Cow;
use std::collections::{BTreeSet, HashSet};
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Container;

use super::crash_loop::CrashLoops;
use crate::cri::{ContainerState, ContainerStatus, SandboxState};
use crate::pleg::PodStatus;
use crate::pod::{AdmittedPod, ContainerRef, RestartPolicy};
use crate::types::{ContainerId, PodRef, SandboxId};

/// What to do about the pod's sandbox.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum SandboxPlan {
    /// It is fine.
    Keep(SandboxId),
    /// Stop everything of the pod, then create a new sandbox.
    Create {
        /// Its attempt.
        attempt: u32,
        /// What is wrong with the present one.
        reason: Cow<'static, str>,
    },
    /// Stop everything of the pod: nothing is to run.
    Stop,
}

/// A container to stop.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Kill {
    /// Which one.
    pub(super) id: ContainerId,
    /// Its name in the pod.
    pub(super) name: String,
    /// Why, for the `Killing` event.
    pub(super) message: String,
}

/// A container to start.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Start {
    /// Which one.
    pub(super) container: ContainerRef,
    /// Created by an earlier sync that did not start it: only start it.
    pub(super) adopt: Option<ContainerId>,
    /// Created earlier, never ran, and outdated: the new one takes its place and its attempt.
    pub(super) replace: Option<ContainerId>,
}

/// A container that waits until it may be started again.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct BackingOff {
    /// Its name in the pod.
    pub(super) name: String,
    /// The pause in force.
    pub(super) pause: Duration,
    /// When the wait is over.
    pub(super) until: Timestamp,
}

/// The actions that make a pod's containers match its spec, in the order of the fields.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Plan {
    /// The sandbox, first.
    pub(super) sandbox: SandboxPlan,
    /// Containers to stop in a sandbox that is kept.
    pub(super) kill: Vec<Kill>,
    /// Containers to start, in the order of the spec.
    pub(super) start: Vec<Start>,
    /// Containers that would be started but wait.
    pub(super) backing_off: Vec<BackingOff>,
    /// The sandbox would be re-created but waits.
    pub(super) sandbox_wait: Option<SandboxWait>,
    /// What is no longer needed, last.
    pub(super) leftovers: Leftovers,
    /// Every container has run to its end under the pod's restart policy.
    pub(super) has_ended: bool,
}

impl Plan {
    /// Whether something is to be started.
    pub(super) fn has_starts(&self) -> bool {
        matches!(self.sandbox, SandboxPlan::Create { .. }) || !self.start.is_empty()
    }

    /// Whether there is nothing to do.
    pub(super) fn is_empty(&self, observed: &PodStatus) -> bool {
        let sandbox_is_fine = match &self.sandbox {
            SandboxPlan::Keep(_) => true,
            SandboxPlan::Create { .. } => false,
            SandboxPlan::Stop => !observed.may_run(),
        };
        sandbox_is_fine
            && self.kill.is_empty()
            && self.start.is_empty()
            && self.leftovers == Leftovers::default()
    }
}

/// Back-off before the sandbox is re-created, as the ones before it did not last.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct SandboxWait {
    /// What is wrong with the present one.
    pub(super) reason: Cow<'static, str>,
    /// The pause in force.
    pub(super) pause: Duration,
    /// When it is over.
    pub(super) until: Timestamp,
}

/// What to do with one container of the spec.
enum ContainerAction {
    /// It runs as it should, or has terminated for good.
    Leave { ended: bool },
    /// It should run and does not.
    Start { adopt: Option<ContainerId>, replace: Option<ContainerId> },
    /// It waits out its back-off.
    Wait(BackingOff),
    /// The running one has to be stopped first.
    Replace(Kill),
}

impl ContainerAction {
    /// It should run, and has to be created.
    fn create() -> Self {
        Self::Start { adopt: None, replace: None }
    }
}

/// The plan for a pod. `restarts` are the containers that a user wants replaced by new instances. `hash` computes the present hash
/// of a container of the spec.
pub(super) fn plan(
    pod: &AdmittedPod,
    observed: &PodStatus,
    crash_loops: &CrashLoops,
    restarts: &BTreeSet<ContainerId>,
    hash: impl Fn(&Container) -> u32,
    now: Timestamp,
) -> Plan {
    let sandbox = sandbox_plan(observed, &pod.reference, pod.host_network);
    let keeps = matches!(sandbox, SandboxPlan::Keep(_));
    let mut plan = Plan {
        sandbox,
        kill: Vec::new(),
        start: Vec::new(),
        backing_off: Vec::new(),
        sandbox_wait: None,
        leftovers: Leftovers::default(),
        has_ended: false,
    };
    let (mut running, mut ended, mut all) = (0, 0, 0);
    for named in pod.main_containers() {
        all += 1;
        let (container, reference) = (named.spec, named.reference());
        let policy = RestartPolicy::of_container(pod.spec(), container);
        let status = observed.container(&container.name);
        let requested =
            status.filter(|status| restarts.contains(&status.id)).and_then(|s| restart_now(s, keeps));
        let action = if let Some(requested) = requested {
            requested
        } else if keeps {
            action_in_sandbox(container, status, observed, policy, crash_loops, hash(container), now)
        } else {
            action_in_new_sandbox(status, policy, crash_loops, now)
        };
        match action {
            ContainerAction::Leave { ended: true } => ended += 1,
            ContainerAction::Leave { ended: false } => running += 1,
            ContainerAction::Start { adopt, replace } => {
                plan.start.push(Start { container: reference, adopt, replace });
            }
            ContainerAction::Wait(wait) => plan.backing_off.push(wait),
            ContainerAction::Replace(kill) => {
                plan.kill.push(kill);
                plan.start.push(Start { container: reference, adopt: None, replace: None });
            }
        }
    }
    if keeps {
        plan.kill.extend(strays(pod, observed));
    }
    plan.has_ended = all > 0 && ended == all;
    let nothing_to_run = running == 0 && plan.start.is_empty() && plan.backing_off.is_empty();
    let only_waits = !keeps && plan.start.is_empty() && !plan.backing_off.is_empty();
    let is_lost = forbids_new_sandbox(&plan.sandbox, pod.restart_policy, observed);
    if nothing_to_run || is_lost {
        plan.has_ended |= is_lost;
        plan.sandbox = SandboxPlan::Stop;
        plan.kill.clear();
        plan.start.clear();
        plan.backing_off.clear();
    } else if only_waits {
        // The sandbox died with its containers, and all of them wait: a new one is created when the first may start.
        plan.sandbox = SandboxPlan::Stop;
    } else if let SandboxPlan::Create { attempt: 1.., reason } = &plan.sandbox
        && let Some((pause, until)) = crash_loops.sandbox_in_force(now)
    {
        plan.sandbox_wait = Some(SandboxWait { reason: reason.clone(), pause, until });
        plan.sandbox = SandboxPlan::Stop;
        plan.start.clear();
    }
    let needed = plan.start.iter().flat_map(|start| start.adopt.iter().chain(&start.replace));
    plan.leftovers = leftovers(observed, &needed.collect::<Vec<_>>());
    plan
}

/// A pod of policy `Never` gets no second sandbox once a container ran, as upstream.
fn forbids_new_sandbox(sandbox: &SandboxPlan, policy: RestartPolicy, observed: &PodStatus) -> bool {
    match (sandbox, policy) {
        (SandboxPlan::Create { attempt, .. }, RestartPolicy::Never) => {
            *attempt != 0 && observed.containers.iter().any(|c| c.state != ContainerState::Created)
        }
        (SandboxPlan::Create { .. }, RestartPolicy::Always | RestartPolicy::OnFailure)
        | (SandboxPlan::Keep(_) | SandboxPlan::Stop, _) => false,
    }
}

/// Whether the pod's sandbox can be kept (upstream's `PodSandboxChanged`, in its order).
fn sandbox_plan(observed: &PodStatus, pod: &PodRef, host_network: bool) -> SandboxPlan {
    let Some(newest) = observed.sandbox() else {
        return SandboxPlan::Create {
            attempt: 0,
            reason: "No sandbox for pod can be found. Need to start a new one".into(),
        };
    };
    let ready = observed.sandboxes.iter().filter(|s| s.state == SandboxState::Ready).count();
    let reason = if ready > 1 {
        "Multiple sandboxes are ready for Pod. Need to reconcile them"
    } else if newest.state != SandboxState::Ready {
        "No ready sandbox for pod can be found. Need to start a new one"
    } else if newest.host_network != host_network || observed.pod.full_name() != pod.full_name() {
        // The name differs if the manifest was renamed and keeps its UID.
        "Sandbox for pod has changed. Need to start a new one"
    } else if !host_network && newest.ips.is_empty() {
        "Sandbox for pod has no IP address. Need to start a new one"
    } else {
        return SandboxPlan::Keep(newest.id.clone());
    };
    SandboxPlan::Create { attempt: newest.attempt.saturating_add(1), reason: reason.into() }
}

fn action_in_sandbox(
    container: &Container,
    status: Option<&ContainerStatus>,
    observed: &PodStatus,
    policy: RestartPolicy,
    crash_loops: &CrashLoops,
    hash: u32,
    now: Timestamp,
) -> ContainerAction {
    let Some(status) = status else { return ContainerAction::create() };
    match status.state {
        ContainerState::Running => {
            if status.hash == Some(hash) {
                return ContainerAction::Leave { ended: false };
            }
            ContainerAction::Replace(Kill {
                id: status.id.clone(),
                name: container.name.clone(),
                message: format!("Container {} definition changed, will be restarted", container.name),
            })
        }
        ContainerState::Created => {
            let is_here = status.sandbox.as_ref() == observed.sandbox().map(|s| &s.id);
            if is_here && status.hash == Some(hash) {
                ContainerAction::Start { adopt: Some(status.id.clone()), replace: None }
            } else {
                ContainerAction::Start { adopt: None, replace: Some(status.id.clone()) }
            }
        }
        ContainerState::Unknown => ContainerAction::Replace(Kill {
            id: status.id.clone(),
            name: container.name.clone(),
            message: "Container is in \"unknown\" state, try killing it before restart".to_owned(),
        }),
        ContainerState::Exited => restart(status, policy, crash_loops, now),
    }
}

/// Without the sandbox, everything in it counts as terminated.
fn action_in_new_sandbox(
    status: Option<&ContainerStatus>,
    policy: RestartPolicy,
    crash_loops: &CrashLoops,
    now: Timestamp,
) -> ContainerAction {
    let Some(status) = status else { return ContainerAction::create() };
    match status.state {
        ContainerState::Exited => restart(status, policy, crash_loops, now),
        ContainerState::Created => ContainerAction::Start { adopt: None, replace: Some(status.id.clone()) },
        ContainerState::Running | ContainerState::Unknown => ContainerAction::create(),
    }
}

/// The restart that a user requested, whatever the policy and without back-off; `None` if the container does not run and is
/// about to be started anyway.
fn restart_now(status: &ContainerStatus, keeps_sandbox: bool) -> Option<ContainerAction> {
    match status.state {
        ContainerState::Running if keeps_sandbox => Some(ContainerAction::Replace(Kill {
            id: status.id.clone(),
            name: status.name.to_string(),
            message: format!("Container {} will be restarted on request", status.name),
        })),
        ContainerState::Exited => Some(ContainerAction::create()),
        ContainerState::Running | ContainerState::Created | ContainerState::Unknown => None,
    }
}

fn restart(
    ended: &ContainerStatus,
    policy: RestartPolicy,
    crash_loops: &CrashLoops,
    now: Timestamp,
) -> ContainerAction {
    if !policy.restarts(ended.exit_code) {
        return ContainerAction::Leave { ended: true };
    }
    match crash_loops.in_force(ended, now) {
        Some((pause, until)) => {
            ContainerAction::Wait(BackingOff { name: ended.name.to_string(), pause, until })
        }
        None => ContainerAction::create(),
    }
}

/// Running containers that the spec does not account for: of a name that is in none of its lists, or older instances than the
/// newest.
fn strays(pod: &AdmittedPod, observed: &PodStatus) -> Vec<Kill> {
    let is_newest = |c: &ContainerStatus| observed.container(&c.name).is_some_and(|n| n.id == c.id);
    let is_named = |c: &ContainerStatus| pod.kind_of(&c.name).is_some();
    let runs = |c: &ContainerStatus| match c.state {
        ContainerState::Running | ContainerState::Unknown => true,
        ContainerState::Created | ContainerState::Exited => false,
    };
    let strays = observed.containers.iter().filter(|c| runs(c) && !(is_named(c) && is_newest(c)));
    strays
        .map(|c| Kill {
            id: c.id.clone(),
            name: c.name.to_string(),
            message: format!("Container {} is not wanted in the pod", c.name),
        })
        .collect()
}

/// Dead containers and sandboxes that are no longer needed.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Leftovers {
    /// To be removed first.
    pub(super) containers: Vec<ContainerId>,
    /// Empty sandboxes, once the containers are removed.
    pub(super) sandboxes: Vec<SandboxId>,
}

/// The leftovers of a pod. Of each container one dead instance is kept, for its exit code and log; of the sandboxes the newest
/// and those that still hold a container. The created containers in `needed` are about to be started or replaced.
pub(super) fn leftovers(observed: &PodStatus, needed: &[&ContainerId]) -> Leftovers {
    let mut seen: HashSet<&str> = HashSet::new();
    let mut containers = Vec::new();
    for container in &observed.containers {
        let is_left = match container.state {
            ContainerState::Running | ContainerState::Unknown => false,
            // Never ran: it has no exit code and no log worth keeping.
            ContainerState::Created => !needed.contains(&&container.id),
            ContainerState::Exited => !seen.insert(&container.name),
        };
        if is_left {
            containers.push(container.id.clone());
        }
    }
    let holds_container = |id: &SandboxId| {
        observed.containers.iter().any(|c| c.sandbox.as_ref() == Some(id) && !containers.contains(&c.id))
    };
    let older = observed.sandboxes.iter().skip(1);
    let empty = older.filter(|s| s.state == SandboxState::NotReady && !holds_container(&s.id));
    let sandboxes = empty.map(|s| s.id.clone()).collect();
    Leftovers { containers, sandboxes }
}

#[cfg(test)]
#[path = "plan_tests.rs"]
mod tests;
