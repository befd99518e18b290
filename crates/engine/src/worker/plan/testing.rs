//! What the tests of plans share: inputs, and a model of a runtime that performs plans.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use hostlet_base::testing::at;
use hostlet_base::{ContainerId, PodRef};
use hostlet_observe::pleg::PodStatus;
use hostlet_pod::resources::{Actuated, Enforced};
use hostlet_pod::testing::{container, sandbox};
use hostlet_pod::{AdmittedPod, PodProbes};
use hostlet_runtime::cri::{ContainerState, ContainerStatus, SandboxState, SandboxStatus};

use super::actions::{Plan, SandboxPlan, Start};
use super::{PlanInput, plan};
use crate::worker::crash_loop::CrashLoops;

pub(super) const HASH: u32 = 7;
pub(super) const NOW: i64 = 100_000;

pub(super) fn loops() -> CrashLoops {
    CrashLoops::new(Duration::from_secs(300), Vec::new())
}

/// Everything that a plan depends on, except for the observed pod.
pub(super) struct Scene {
    pub(super) pod: Arc<AdmittedPod>,
    pub(super) loops: CrashLoops,
    pub(super) restarts: BTreeSet<ContainerId>,
    pub(super) probes: PodProbes,
    pub(super) actuated: Actuated,
}

impl Scene {
    pub(super) fn of(pod: &Arc<AdmittedPod>) -> Self {
        let actuated = enforced(pod);
        Self {
            pod: pod.clone(),
            loops: loops(),
            restarts: BTreeSet::new(),
            probes: PodProbes::default(),
            actuated,
        }
    }

    pub(super) fn plan(&self, observed: &PodStatus) -> Plan {
        plan(&PlanInput {
            pod: &self.pod,
            observed,
            crash_loops: &self.loops,
            restarts: &self.restarts,
            probes: &self.probes,
            actuated: &self.actuated,
            hash: |_| HASH,
            now: at(NOW),
        })
    }
}

/// Everything of a pod is enforced as its spec has it.
pub(super) fn enforced(pod: &AdmittedPod) -> Actuated {
    let containers = pod.containers().map(|c| (c.spec.name.clone(), Enforced::of(pod, c.spec)));
    Actuated { containers: containers.collect(), pod: Some(Enforced::of_pod(pod)), resize: None }
}

pub(super) fn observed(sandboxes: Vec<SandboxStatus>, containers: Vec<ContainerStatus>) -> PodStatus {
    let containers =
        containers.into_iter().map(|c| ContainerStatus { hash: c.hash.or(Some(HASH)), ..c }).collect();
    PodStatus { pod: PodRef::new("default", "p", "u"), ips: Vec::new(), sandboxes, containers }
}

pub(super) fn names_of(starts: &[Start]) -> Vec<&str> {
    starts.iter().map(|start| start.container.name.as_str()).collect()
}

pub(super) fn ready() -> SandboxStatus {
    sandbox(0, SandboxState::Ready)
}

pub(super) fn dead() -> SandboxStatus {
    sandbox(0, SandboxState::NotReady)
}

/// A model of a runtime that performs plans action by action, and can be interrupted.
#[derive(Clone, Debug)]
pub(super) struct World {
    pub(super) status: PodStatus,
    pub(super) made: u32,
}

impl World {
    /// Performs at most `budget` actions.
    pub(super) fn apply(&mut self, plan: &Plan, mut budget: usize) {
        let mut act = || {
            let go = budget > 0;
            budget = budget.saturating_sub(1);
            go
        };
        for reset in &plan.reset {
            let target = self.status.containers.iter_mut().find(|c| c.id == reset.id);
            if reset.stop && act() {
                target.into_iter().for_each(end);
            }
            if act() {
                self.status.containers.retain(|c| c.id != reset.id);
            }
        }
        if !plan.reset.is_empty() {
            return;
        }
        if let SandboxPlan::Create { .. } | SandboxPlan::Stop = plan.sandbox {
            for c in &mut self.status.containers {
                if matches!(c.state, ContainerState::Running | ContainerState::Unknown) && act() {
                    end(c);
                }
            }
            for s in &mut self.status.sandboxes {
                if s.state == SandboxState::Ready && act() {
                    s.state = SandboxState::NotReady;
                    for c in &mut self.status.containers {
                        if c.state == ContainerState::Running && c.sandbox.as_ref() == Some(&s.id) {
                            end(c);
                        }
                    }
                }
            }
        }
        if let SandboxPlan::Create { attempt, .. } = plan.sandbox
            && act()
        {
            self.status.sandboxes.insert(0, sandbox(attempt, SandboxState::Ready));
        }
        for kill in &plan.kill {
            if act() {
                let target = self.status.containers.iter_mut().find(|c| c.id == kill.id);
                target.into_iter().for_each(end);
            }
        }
        for start in &plan.start {
            let id = match &start.adopt {
                Some(id) => id.clone(),
                None => {
                    if !act() {
                        return;
                    }
                    let name = start.container.name.as_str();
                    let mut attempt = self.status.container(name).map_or(0, |c| c.attempt + 1);
                    if let Some(replaced) = &start.replace {
                        attempt -= 1;
                        self.status.containers.retain(|c| c.id != *replaced);
                        if !act() {
                            return;
                        }
                    }
                    self.made += 1;
                    let made = ContainerStatus {
                        id: format!("made-{}", self.made).into(),
                        sandbox: self.status.sandbox().map(|s| s.id.clone()),
                        hash: Some(HASH),
                        ..container(name, attempt, ContainerState::Created)
                    };
                    let id = made.id.clone();
                    self.status.containers.insert(0, made);
                    id
                }
            };
            if act() {
                let target = self.status.containers.iter_mut().find(|c| c.id == id);
                target.into_iter().for_each(|c| c.state = ContainerState::Running);
            }
        }
        for id in &plan.leftovers.containers {
            if act() {
                self.status.containers.retain(|c| c.id != *id);
            }
        }
        for id in &plan.leftovers.sandboxes {
            if act() {
                self.status.sandboxes.retain(|s| s.id != *id);
            }
        }
    }

    /// The result for a user: what runs, and how often each container was created.
    pub(super) fn shape(&self, names: &[&str]) -> Vec<(String, usize)> {
        names
            .iter()
            .map(|name| {
                let runs = self
                    .status
                    .containers
                    .iter()
                    .filter(|c| &*c.name == *name && c.state == ContainerState::Running);
                ((*name).to_owned(), runs.count())
            })
            .collect()
    }
}

pub(super) fn end(c: &mut ContainerStatus) {
    c.state = ContainerState::Exited;
    c.exit_code = 137;
    c.finished_at = Some(at(50_000));
}
