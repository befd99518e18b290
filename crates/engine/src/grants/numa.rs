//! CPUs and memory of NUMA nodes that containers have for themselves: the value that decides, and its files, which a stock kubelet reads
//! as well. Does not decide.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use hostlet_base::{PodUid, error_chain, watching};
use hostlet_pod::view::PodView;
use hostlet_resources::{
    Block, CpuCheckpoint, CpuSet, Cpus, GrantedCpus, Managers, MemoryCheckpoint, MemoryNodes, NumaMask,
    RunningCpus, RunningMemory, StaticCpus, StaticManagers, StaticMemory, Topology,
};
use k8s_openapi::api::core::v1::Pod;
use parking_lot::Mutex;
use tokio::sync::watch;

use super::numa_files::{NumaFiles, NumaRecordError};
use super::numa_view::NumaView;

/// How CPUs and memory of NUMA nodes are granted.
#[derive(Clone, Debug)]
pub struct NumaSettings {
    /// The CPUs (`cpuManagerPolicy`); `None` with the policy `none`.
    pub cpus: Option<Arc<StaticCpus>>,
    /// The memory (`memoryManagerPolicy`); `None` with the policy `None`.
    pub memory: Option<Arc<StaticMemory>>,
    /// How NUMA nodes are chosen for all of it.
    pub managers: Arc<StaticManagers>,
    /// The longest time in which a running container does not run on the CPUs that it should (`cpuManagerReconcilePeriod`).
    pub reconcile_period: Duration,
}

impl NumaSettings {
    /// Nothing is granted.
    pub fn none() -> Self {
        let managers = StaticManagers { topology: Topology::none(), pod_level: false };
        Self { cpus: None, memory: None, managers: Arc::new(managers), reconcile_period: Duration::MAX }
    }

    /// Whether a pod is granted CPUs or memory.
    pub(crate) fn are_static(&self) -> bool {
        self.cpus.is_some() || self.memory.is_some()
    }
}

/// An admitted pod that has not terminated, and what the kernel says of its running containers.
#[derive(Clone, Debug)]
pub(crate) struct RunningPod {
    /// The pod with its allocated resources.
    pub(crate) pod: Arc<Pod>,
    /// The CPUs of its containers.
    pub(crate) cpus: BTreeMap<String, CpuSet>,
    /// The NUMA nodes of their memory.
    pub(crate) memory: BTreeMap<String, NumaMask>,
}

/// CPUs and memory that containers have for themselves. Cheap to clone; clones share them.
#[derive(Clone)]
pub struct NumaGrants {
    shared: Arc<Shared>,
}

struct Shared {
    settings: NumaSettings,
    files: NumaFiles,
    managers: Mutex<Managers>,
    /// Whether it is known what running containers have.
    is_recovered: watch::Sender<bool>,
    /// Counts the changes of what containers have.
    revision: watch::Sender<u64>,
    /// Containers that are about to start since the task looked.
    starting: watch::Sender<Vec<(Arc<Pod>, String)>>,
}

impl NumaGrants {
    /// No container has anything, until [`NumaGrants::recover`].
    pub(crate) fn new(settings: NumaSettings, dir: PathBuf) -> Self {
        let cpus = settings.cpus.clone().map(Cpus::new);
        let memory = settings.memory.clone().map(MemoryNodes::new);
        let managers = Mutex::new(Managers::new(settings.managers.clone(), cpus, memory));
        let (is_recovered, revision) = (watch::Sender::new(!settings.are_static()), watch::Sender::default());
        let files = NumaFiles::new(dir);
        Self {
            shared: Arc::new(Shared {
                settings,
                files,
                managers,
                is_recovered,
                revision,
                starting: watch::Sender::default(),
            }),
        }
    }

    /// Of a node on which nothing is granted.
    #[cfg(any(test, feature = "fakes"))]
    pub fn none() -> Self {
        Self::new(NumaSettings::none(), PathBuf::new())
    }

    /// The settings.
    pub(crate) fn settings(&self) -> &NumaSettings {
        &self.shared.settings
    }

    /// Waits until it is known what running containers have. Cancel-safe.
    pub(crate) async fn recovered(&self) {
        watching::becomes(&mut self.shared.is_recovered.subscribe(), |is_recovered| *is_recovered).await;
    }

    /// Changes with what containers have.
    pub(crate) fn revision(&self) -> watch::Receiver<u64> {
        self.shared.revision.subscribe()
    }

    /// Reads what the kubelet before had granted, and has running containers keep it. Whatever no longer holds is logged: nothing of it is a
    /// reason not to start.
    pub(crate) async fn recover(&self, running: Vec<RunningPod>) {
        let (cpu_file, memory_file) = self.shared.files.read().await;
        let settings = &self.shared.settings;
        let cpus = settings.cpus.clone().map(|policy| {
            let file = cpu_file.map(|bytes| CpuCheckpoint::decode(&bytes));
            let running: Vec<RunningCpus<'_>> = running
                .iter()
                .map(|found| RunningCpus { pod: &found.pod, cpus: found.cpus.clone() })
                .collect();
            let (cpus, findings) = Cpus::reconcile(policy, file, &running);
            for finding in findings {
                tracing::warn!(finding = %finding, "the CPUs of containers differ from cpu_manager_state");
            }
            cpus
        });
        let memory = settings.memory.clone().map(|policy| {
            let file = memory_file.map(|bytes| MemoryCheckpoint::decode(&bytes));
            let running: Vec<RunningMemory<'_>> = running
                .iter()
                .map(|found| RunningMemory { pod: &found.pod, nodes: found.memory.clone() })
                .collect();
            let (memory, findings) = MemoryNodes::reconcile(policy, file, &running);
            for finding in findings {
                tracing::warn!(finding = %finding, "the memory of containers differs from memory_manager_state");
            }
            memory
        });
        let managers = Managers::new(settings.managers.clone(), cpus, memory);
        if let Err(error) = self.commit(managers).await {
            tracing::error!(error = error_chain(&error), "cannot record what containers have for themselves");
        }
        self.shared.is_recovered.send_replace(true);
    }

    /// A container is about to start, so that the init containers before it have ended and need their memory no more.
    pub(crate) fn starts(&self, pod: &Arc<Pod>, container: &str) {
        if self.shared.settings.memory.is_some() {
            self.shared.starting.send_modify(|starting| starting.push((pod.clone(), container.to_owned())));
        }
    }

    /// Changes with the containers that are about to start.
    pub(crate) fn starting(&self) -> watch::Receiver<Vec<(Arc<Pod>, String)>> {
        self.shared.starting.subscribe()
    }

    /// Releases the memory of init containers before those that are about to start. Returns whether that was anything.
    pub(crate) fn release_ended(&self, managers: &mut Managers) -> bool {
        let mut starting = Vec::new();
        self.shared.starting.send_if_modified(|waiting| {
            starting = std::mem::take(waiting);
            false
        });
        let Some(memory) = &mut managers.memory else { return false };
        let before = memory.state().clone();
        starting.iter().for_each(|(pod, container)| memory.release_before(pod, container));
        *memory.state() != before
    }

    /// A copy to try grants on.
    pub(crate) fn managers(&self) -> Managers {
        self.shared.managers.lock().clone()
    }

    /// Replaces what containers have, and records it.
    ///
    /// # Errors
    /// It is not recorded. Containers have it nevertheless.
    pub(crate) async fn commit(&self, managers: Managers) -> Result<(), NumaRecordError> {
        let written = self.shared.files.write(&managers);
        *self.shared.managers.lock() = managers;
        self.shared.revision.send_modify(|revision| *revision += 1);
        written.await
    }

    /// The CPUs on which a container runs, in the kernel's list format; `None` if on any.
    pub(crate) fn cpu_list(&self, uid: &PodUid, container: &str) -> Option<String> {
        let managers = self.shared.managers.lock();
        Some(managers.cpus.as_ref()?.assignment(uid.as_str(), container).to_string())
    }

    /// The same, and whether no other container uses them.
    pub(crate) fn cpus(&self, pod: &Pod, container: &str) -> Option<GrantedCpus> {
        let managers = self.shared.managers.lock();
        let cpus = managers.cpus.as_ref()?;
        let list = cpus.assignment(PodView::from(pod).uid, container).to_string();
        Some(GrantedCpus { list, are_exclusive: cpus.is_exclusive(pod, container) })
    }

    /// The NUMA nodes whose memory a container uses; `None` if of any.
    pub(crate) fn memory_nodes(&self, uid: &PodUid, container: &str) -> Option<String> {
        let nodes = self.shared.managers.lock().memory.as_ref()?.nodes(uid.as_str(), container)?;
        Some(CpuSet::from_iter(nodes.nodes()).to_string())
    }

    /// The CPUs that a container has for itself.
    pub fn exclusive_cpus(&self, uid: &PodUid, container: &str) -> Vec<u32> {
        let managers = self.shared.managers.lock();
        let own = managers.cpus.as_ref().and_then(|cpus| cpus.state().container(uid.as_str(), container));
        own.map(|cpus| cpus.iter().collect()).unwrap_or_default()
    }

    /// The memory that a container has for itself.
    pub fn memory(&self, uid: &PodUid, container: &str) -> Vec<Block> {
        let managers = self.shared.managers.lock();
        let own =
            managers.memory.as_ref().and_then(|memory| memory.state().container(uid.as_str(), container));
        own.map(<[Block]>::to_vec).unwrap_or_default()
    }

    /// The CPUs that containers can have for themselves; none with the policy `none`.
    pub fn allocatable_cpus(&self) -> Vec<u32> {
        let managers = self.shared.managers.lock();
        managers.cpus.as_ref().map(|cpus| cpus.allocatable().iter().collect()).unwrap_or_default()
    }

    /// The memory that containers can have for themselves; none with the policy `None`.
    pub fn allocatable_memory(&self) -> Vec<Block> {
        self.shared.managers.lock().memory.as_ref().map(MemoryNodes::allocatable).unwrap_or_default()
    }

    /// What containers have, as people see it; `None` if nothing is granted on this node.
    pub fn view(&self) -> Option<NumaView> {
        NumaView::of(&self.shared.managers.lock())
    }

    /// The CPUs of all containers that have none for themselves, in the kernel's list format; `None` with the policy `none`.
    pub fn shared_cpus(&self) -> Option<String> {
        Some(self.shared.managers.lock().cpus.as_ref()?.shared().to_string())
    }

    /// Whether the CPU time of the pod as a whole is not limited.
    pub(crate) fn is_cpu_unlimited(&self, pod: &Pod) -> bool {
        let managers = self.shared.managers.lock();
        managers.cpus.as_ref().is_some_and(|cpus| cpus.is_unlimited(pod))
    }
}
