//! What runs when the daemon starts, and on which CPUs and NUMA nodes: the kernel says so whatever happened to the files. Changes nothing.

use std::collections::BTreeMap;
use std::sync::Arc;

use hostlet_base::{error_chain, watching};
use hostlet_host::cgroup::{Cgroups, ContainerCpuset};
use hostlet_host::file_work;
use hostlet_observe::pleg::Cache;
use hostlet_pod::{AdmittedPod, DesiredPods};
use hostlet_resources::{CpuSet, NumaMask};
use hostlet_runtime::cri::ContainerState;
use tokio::sync::watch;

use super::numa::{NumaGrants, RunningPod};

/// Finds what runs.
pub(crate) struct Recovery {
    /// The admitted pods.
    pub(crate) desired_pods: watch::Receiver<DesiredPods>,
    /// What the runtime has of them, once it was listed.
    pub(crate) observed: Cache,
    /// Their cgroups; `None` with `cgroupsPerQOS: false`.
    pub(crate) cgroups: Option<Arc<Cgroups>>,
}

impl Recovery {
    /// Has running containers keep what they have. Waits until all admitted pods are known, if there is something that they may have.
    pub(crate) async fn run(&mut self, numa: &NumaGrants) {
        if !numa.settings().are_static() {
            return numa.recover(Vec::new()).await;
        }
        watching::becomes(&mut self.desired_pods, |desired| desired.ready).await;
        let pods = self.desired_pods.borrow().pods.clone();
        let mut running = Vec::new();
        for pod in pods.iter().filter(|pod| !pod.has_ended()) {
            running.push(self.running(pod).await);
        }
        numa.recover(running).await;
    }

    async fn running(&self, pod: &AdmittedPod) -> RunningPod {
        let mut running =
            RunningPod { pod: pod.object().clone(), cpus: BTreeMap::new(), memory: BTreeMap::new() };
        let Ok(observed) = self.observed.get(&pod.reference) else { return running };
        let cpusets = self.cpusets(pod).await;
        let containers =
            observed.containers.iter().filter(|container| container.state == ContainerState::Running);
        for container in containers {
            let is_its = |cpuset: &&ContainerCpuset| cpuset.cgroup.contains(container.id.as_str());
            let Some(cpuset) = cpusets.iter().find(is_its) else { continue };
            if let Ok(cpus) = cpuset.cpus.parse::<CpuSet>() {
                running.cpus.insert(container.name.to_string(), cpus);
            }
            if let Ok(nodes) = cpuset.memory_nodes.parse::<CpuSet>() {
                running.memory.insert(container.name.to_string(), NumaMask::of(nodes.iter()));
            }
        }
        running
    }

    async fn cpusets(&self, pod: &AdmittedPod) -> Vec<ContainerCpuset> {
        let Some(cgroups) = self.cgroups.clone() else { return Vec::new() };
        let (uid, qos) = (pod.reference.uid.clone(), pod.qos);
        match file_work(move || cgroups.cpusets(&uid, qos)).await {
            Ok(Ok(found)) => found,
            Ok(Err(error)) => {
                let pod = &pod.reference;
                tracing::warn!(%pod, uid = %pod.uid, error = error_chain(&error), "cannot read on which CPUs containers run");
                Vec::new()
            }
            Err(error) => {
                tracing::error!(error = error_chain(&error), "reading on which CPUs containers run failed");
                Vec::new()
            }
        }
    }
}
