//! What a start finds: the file of the run before, which may be of another policy, another machine, or broken, and what runs. What runs
//! keeps its CPUs, and nothing that was found is a reason not to start.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use hostlet_pod::view::PodView;
use k8s_openapi::api::core::v1::Pod;

use super::checkpoint::{CpuCheckpoint, CpuCheckpointError};
use super::demand::container_cpus;
use super::grants::Cpus;
use super::policy::StaticCpus;
use super::state::CpuState;
use crate::containers::containers;
use crate::machine::CpuSet;

/// Name of the static policy, in the file.
pub(super) const STATIC: &str = "static";

/// An admitted pod that has not terminated, and the CPUs on which its running containers run according to the kernel.
#[derive(Clone, Debug)]
pub struct RunningCpus<'a> {
    /// The pod with the resources that it was granted.
    pub pod: &'a Pod,
    /// The CPUs by container, as far as they are known.
    pub cpus: BTreeMap<String, CpuSet>,
}

/// Something of the file that no longer holds.
#[derive(Debug)]
pub enum CpuFinding {
    /// The file is not used.
    Unreadable(CpuCheckpointError),
    /// The file is of another policy.
    OtherPolicy(String),
    /// The machine has CPUs that it had not, or no longer has CPUs.
    Machine {
        /// The CPUs that it had not.
        added: CpuSet,
        /// The CPUs that it no longer has.
        removed: CpuSet,
    },
    /// A container keeps only some of its CPUs, because the machine no longer has the others, or another container has them.
    Lost {
        /// UID of the pod.
        uid: String,
        /// The container.
        container: String,
        /// The CPUs that it no longer has.
        cpus: CpuSet,
    },
    /// A container keeps CPUs that are reserved by now.
    Reserved {
        /// UID of the pod.
        uid: String,
        /// The container.
        container: String,
        /// The CPUs.
        cpus: CpuSet,
    },
    /// The file does not have the CPUs on which a container runs.
    Adopted {
        /// UID of the pod.
        uid: String,
        /// The container.
        container: String,
        /// The CPUs.
        cpus: CpuSet,
    },
    /// All CPUs are of containers that have them for themselves; the others use all, too.
    NothingShared,
}

impl fmt::Display for CpuFinding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreadable(error) => write!(f, "the file {error}"),
            Self::OtherPolicy(policy) => write!(f, "the file is of policy \"{policy}\""),
            Self::Machine { added, removed } => {
                write!(f, "CPUs of the machine changed: added \"{added}\", removed \"{removed}\"")
            }
            Self::Lost { uid, container, cpus } => {
                write!(f, "container {container} of pod {uid} no longer has CPUs {cpus}")
            }
            Self::Reserved { uid, container, cpus } => {
                write!(f, "container {container} of pod {uid} keeps CPUs {cpus}, which are reserved now")
            }
            Self::Adopted { uid, container, cpus } => {
                write!(f, "container {container} of pod {uid} keeps CPUs {cpus}, on which it runs")
            }
            Self::NothingShared => f.write_str("no CPUs are left for containers without CPUs of their own"),
        }
    }
}

impl Cpus {
    /// The CPUs of what runs. `file` is what the run before left, if anything.
    pub fn reconcile(
        policy: Arc<StaticCpus>,
        file: Option<Result<CpuCheckpoint, CpuCheckpointError>>,
        running: &[RunningCpus<'_>],
    ) -> (Self, Vec<CpuFinding>) {
        let mut findings = Vec::new();
        let file = match file {
            None => None,
            Some(Err(error)) => {
                findings.push(CpuFinding::Unreadable(error));
                None
            }
            Some(Ok(file)) if file.policy != STATIC => {
                findings.push(CpuFinding::OtherPolicy(file.policy));
                None
            }
            Some(Ok(file)) => Some(file.state),
        };
        if let Some(file) = &file {
            findings.extend(changed_machine(&policy, file));
        }
        let mut state = CpuState::default();
        for running in running {
            adopt(&policy, &mut state, file.as_ref(), running, &mut findings);
        }
        state.shared = policy.usable().difference(&state.exclusive());
        if state.shared.is_empty() {
            findings.push(CpuFinding::NothingShared);
        }
        (Self::with(policy, state), findings)
    }
}

fn changed_machine(policy: &StaticCpus, file: &CpuState) -> Option<CpuFinding> {
    let known = file.shared.union(&file.exclusive());
    let all = policy.machine.all_cpus();
    let (added, removed) = (policy.usable().difference(&known), known.difference(&all));
    let is_empty = file.shared.is_empty() && file.containers.is_empty();
    let is_as_before = added.is_empty() && removed.is_empty();
    (!is_empty && !is_as_before).then_some(CpuFinding::Machine { added, removed })
}

/// Adopts the CPUs of a pod's containers.
fn adopt(
    policy: &StaticCpus,
    state: &mut CpuState,
    file: Option<&CpuState>,
    running: &RunningCpus<'_>,
    findings: &mut Vec<CpuFinding>,
) {
    let uid = PodView::from(running.pod).uid;
    // Containers of a pod may have the same CPUs, one after the other; those of different pods may not.
    let available = policy.machine.all_cpus().difference(&state.exclusive());
    let pod = file.and_then(|file| file.pods.get(uid)).filter(|_| policy.pod_level);
    if let Some(pod) = pod {
        state.pods.insert(uid.to_owned(), pod.intersection(&available));
    }
    for container in containers(running.pod) {
        let name = &container.name;
        let finding = |cpus: CpuSet| (uid.to_owned(), name.clone(), cpus);
        let cpus = match file.and_then(|file| file.container(uid, name)) {
            Some(cpus) => cpus,
            None => {
                let requested = container_cpus(running.pod, container, policy.pod_level);
                let actual = running.cpus.get(name).filter(|cpus| {
                    requested > 0 && cpus.len() == requested && cpus.is_disjoint(&policy.reserved)
                });
                let Some(actual) = actual.filter(|cpus| cpus.is_subset(&available)) else { continue };
                let (uid, container, cpus) = finding(actual.clone());
                findings.push(CpuFinding::Adopted { uid, container, cpus });
                actual
            }
        };
        let (kept, lost) = (cpus.intersection(&available), cpus.difference(&available));
        let reserved = kept.intersection(&policy.reserved);
        if !lost.is_empty() {
            let (uid, container, cpus) = finding(lost);
            findings.push(CpuFinding::Lost { uid, container, cpus });
        }
        if !reserved.is_empty() {
            let (uid, container, cpus) = finding(reserved);
            findings.push(CpuFinding::Reserved { uid, container, cpus });
        }
        if !kept.is_empty() {
            state.set(uid, name, kept);
        }
    }
}

#[cfg(test)]
#[path = "reconcile_tests.rs"]
mod tests;
