//! Keeps running containers on the CPUs that they are to run on: CPUs that a container has for itself are taken from all others, which get
//! them back when it ends. Grants nothing.

use std::collections::BTreeMap;
use std::sync::Arc;

use hostlet_base::{ContainerId, error_chain, watching};
use hostlet_observe::pleg::{Cache, PodStatus};
use hostlet_runtime::cri::wire::LinuxContainerResources;
use hostlet_runtime::cri::{ContainerState, RuntimeService};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::numa::NumaGrants;
use crate::ownership::OwnPods;

/// The task, which the app runs where containers can have CPUs for themselves.
pub(crate) struct Cpusets {
    pub(crate) numa: NumaGrants,
    /// What the runtime runs.
    pub(crate) observed: Cache,
    /// Whose containers are changed: no other kubelet's.
    pub(crate) own: OwnPods,
    pub(crate) runtime: Arc<dyn RuntimeService>,
}

impl Cpusets {
    /// Runs until cancelled.
    pub(crate) async fn run(self, cancel: CancellationToken) {
        let mut applied = BTreeMap::new();
        let mut revision = self.numa.revision();
        self.numa.recovered().await;
        loop {
            revision.mark_unchanged();
            self.apply(&mut applied).await;
            tokio::select! {
                // Cancel-safe: waits for a token.
                () = cancel.cancelled() => return,
                // Cancel-safe: a watch marks its value seen only when this returns.
                () = watching::changed(&mut revision) => {}
                // Cancel-safe: a sleep. Containers that were created before the last change start meanwhile.
                () = sleep(self.numa.settings().reconcile_period) => {}
            }
        }
    }

    /// Moves the containers that run on other CPUs than they should. `applied` is where each was moved.
    async fn apply(&self, applied: &mut BTreeMap<ContainerId, String>) {
        let known = self.observed.last_known();
        let own = known.iter().filter(|status| self.own.has(&status.pod.uid));
        let desired: BTreeMap<ContainerId, String> = own.flat_map(|status| self.desired(status)).collect();
        applied.retain(|id, _| desired.contains_key(id));
        for (id, list) in desired {
            if applied.get(&id) == Some(&list) {
                continue;
            }
            let resources = LinuxContainerResources { cpuset_cpus: list.clone(), ..Default::default() };
            match self.runtime.update_container(&id, resources).await {
                Ok(()) => drop(applied.insert(id, list)),
                Err(error) => {
                    tracing::warn!(container = %id, cpus = list, error = error_chain(&error), "cannot move a container to its CPUs; trying again");
                }
            }
        }
    }

    /// Where the running containers of a pod should run.
    fn desired(&self, status: &PodStatus) -> impl Iterator<Item = (ContainerId, String)> {
        let running = status.containers.iter().filter(|container| container.state == ContainerState::Running);
        let desired = running.filter_map(|container| {
            Some((container.id.clone(), self.numa.cpu_list(&status.pod.uid, &container.name)?))
        });
        desired.collect::<Vec<_>>().into_iter()
    }
}
