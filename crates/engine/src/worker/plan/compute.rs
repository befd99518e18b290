//! The plan for a pod. The order of the rules is that of the stock kubelet's `computePodActions`. Removing dead containers and
//! sandboxes is part of the plan; a plan applied to its own result is empty.

use hostlet_base::SandboxId;
use hostlet_pod::{ContainerRef, PodContainer};

use super::actions::{Plan, SandboxPlan, SandboxWait};
use super::container::{ContainerAction, ephemeral};
use super::init::{Progress, add_inits};
use super::input::PlanInput;
use super::leftovers::{leftovers, strays};
use super::reset::resets;
use super::resize::resize;
use super::sandbox::{is_forbidden, sandbox_plan};

/// The plan for a pod.
pub(in crate::worker) fn plan(input: &PlanInput<'_>) -> Plan {
    let sandbox = sandbox_plan(input);
    let reset = resets(input);
    if !reset.is_empty() {
        return Plan { reset, ..Plan::with(sandbox) };
    }
    let mut plan = match &sandbox {
        SandboxPlan::Keep(id) => in_sandbox(input, id),
        SandboxPlan::Create { attempt, .. } => in_new_sandbox(input, sandbox.clone(), *attempt),
        SandboxPlan::Stop => Plan::with(sandbox),
    };
    let needed = plan.start.iter().flat_map(|start| start.adopt.iter().chain(&start.replace));
    plan.leftovers = leftovers(input.observed, &needed.collect::<Vec<_>>());
    plan
}

/// Nothing of the pod is to run.
fn nothing(has_ended: bool) -> Plan {
    Plan { has_ended, ..Plan::with(SandboxPlan::Stop) }
}

/// How the main containers of a pod are.
#[derive(Default)]
struct Tally {
    all: usize,
    /// They run, or will.
    alive: usize,
    ended: usize,
}

impl Tally {
    fn count(&mut self, action: &ContainerAction) {
        self.all += 1;
        match action {
            ContainerAction::Run
            | ContainerAction::Start { .. }
            | ContainerAction::Wait(_)
            | ContainerAction::StopAndWait(_)
            | ContainerAction::Replace(_) => self.alive += 1,
            ContainerAction::End => self.ended += 1,
            ContainerAction::Stop(_) => {}
        }
    }

    /// Whether every main container has run to its end.
    fn has_ended(&self) -> bool {
        self.all > 0 && self.ended == self.all
    }
}

/// The plan for a pod that keeps its sandbox.
fn in_sandbox(input: &PlanInput<'_>, id: &SandboxId) -> Plan {
    let mut plan = Plan::with(SandboxPlan::Keep(id.clone()));
    for container in input.pod.ephemeral_containers() {
        plan.add(container.reference(), ephemeral(input, container, id));
    }
    match add_inits(input, id, &mut plan) {
        Progress::Failed => return nothing(true),
        Progress::UnderWay => plan.later.extend(waiting_mains(input)),
        Progress::Complete => {
            let mut tally = Tally::default();
            for PodContainer { kind, spec } in input.pod.main_containers() {
                let action = input.main(spec, id);
                tally.count(&action);
                plan.add(PodContainer { kind, spec }.reference(), action);
            }
            if tally.alive == 0 {
                // Sidecars do not keep a pod alive.
                return nothing(tally.has_ended());
            }
        }
    }
    plan.kill.extend(strays(input));
    plan.resize = resize(input, id, &plan.kill);
    plan
}

/// The main containers that start once the pod is initialized.
fn waiting_mains(input: &PlanInput<'_>) -> impl Iterator<Item = ContainerRef> {
    let mains = input.pod.main_containers();
    let starts = |container: &PodContainer<'_>| {
        matches!(input.main_in_new_sandbox(container.spec), ContainerAction::Start { .. })
    };
    mains.filter(starts).map(|container| container.reference())
}

/// The plan for a pod that needs a new sandbox.
fn in_new_sandbox(input: &PlanInput<'_>, sandbox: SandboxPlan, attempt: u32) -> Plan {
    if is_forbidden(input, attempt) {
        return nothing(true);
    }
    let mut plan = Plan::with(sandbox);
    let mut tally = Tally::default();
    let has_inits = !input.pod.init_containers().is_empty();
    for PodContainer { kind, spec } in input.pod.main_containers() {
        let action = input.main_in_new_sandbox(spec);
        tally.count(&action);
        if !has_inits {
            plan.add(PodContainer { kind, spec }.reference(), action);
        }
    }
    if tally.alive == 0 {
        return nothing(tally.has_ended());
    }
    if let Some((first, others)) = input.pod.init_containers().split_first() {
        let action = input.anew(first);
        plan.add(PodContainer::init(first).reference(), action);
        plan.later.extend(others.iter().map(|init| PodContainer::init(init).reference()));
        plan.later.extend(waiting_mains(input));
    }
    if plan.start.is_empty() {
        // The sandbox died with its containers, and all of them wait: a new one is created when the first may start.
        plan.sandbox = SandboxPlan::Stop;
    } else if let SandboxPlan::Create { attempt: 1.., reason } = &plan.sandbox
        && let Some((pause, until)) = input.crash_loops.sandbox_in_force(input.now)
    {
        plan.sandbox_wait = Some(SandboxWait { reason: reason.clone(), pause, until });
        plan.sandbox = SandboxPlan::Stop;
        let starts = plan.start.drain(..).map(|start| start.container);
        plan.later.splice(..0, starts);
    }
    plan
}
