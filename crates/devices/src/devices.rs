//! The handle of the devices: what others ask and request. Decides nothing itself: `state` does.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use hostlet_base::node::PluginResources;
use hostlet_base::{Conflated, PodUid, WallClock, error_chain};
use hostlet_resources::ContainerGrant;
use hostlet_telemetry::Metrics;
use k8s_openapi::api::core::v1::{Pod, ResourceHealth, ResourceStatus};
use tokio::sync::watch;
use tokio::time::Instant;

use crate::allocation::Allocation;
use crate::device::by_node;
use crate::error::{AllocateError, AllocateFailure, PreStartError};
use crate::grant::grant;
use crate::registration::{DevicePluginHandler, Instances};
use crate::report;
use crate::requests::PodRequests;
use crate::shared::{DevicesSettings, Shared};
use crate::state::{PodStage, Proposal, Step};
use crate::task::DevicesTask;
use crate::view::{HeldDevices, ResourceView};
use hostlet_resources::Hint;

/// The devices of this node. Clones share one state.
#[derive(Clone)]
pub struct Devices {
    shared: Arc<Shared>,
}

impl Devices {
    /// The devices after a start, from the checkpoint of this or a stock kubelet, which is read on this thread. The task must run for
    /// plugins to register; the handler is for those that register as plugins of other types do.
    pub fn new(settings: DevicesSettings, clock: WallClock) -> (Self, DevicePluginHandler, DevicesTask) {
        let shared = Arc::new(Shared::new(settings, clock));
        let instances = Arc::<Instances>::default();
        let handler = DevicePluginHandler { instances: instances.clone(), shared: shared.clone() };
        let task = DevicesTask { shared: shared.clone(), instances };
        (Self { shared }, handler, task)
    }

    /// Registers the metrics.
    pub fn register(&self, metrics: &Metrics) {
        self.shared.metrics.register(metrics);
    }

    /// Whether a checkpoint existed at the start: a kubelet with devices ran on this host before, and the Node may state their number
    /// until plugins register again.
    pub fn had_checkpoint(&self) -> bool {
        self.shared.existed
    }

    /// What was wrong with the checkpoint at the start, and what is known nevertheless: a sentence.
    pub fn damage(&self) -> Option<&str> {
        self.shared.damage()
    }

    /// The resources of device plugins, also of those that are away, and of which somebody has devices.
    pub fn resources(&self) -> watch::Receiver<BTreeSet<String>> {
        self.shared.resources()
    }

    /// What the plugins offer, for the status of the node.
    pub fn capacity(&self) -> watch::Receiver<PluginResources> {
        self.shared.capacity()
    }

    /// Changes whenever an allocation that was not possible may be.
    pub fn revision(&self) -> watch::Receiver<u64> {
        self.shared.revision()
    }

    /// The pods whose devices changed their health, each once until it is read. One reader.
    pub fn health_changes(&self) -> Conflated<()> {
        self.shared.health()
    }

    /// Whether a pod requests something of a device plugin.
    pub fn needs(&self, pod: &Pod) -> bool {
        let requests = PodRequests::of(pod);
        self.shared.read(|state| requests.resources().any(|resource| state.is_device(resource)))
    }

    /// The NUMA nodes on which a container's devices can be allocated, by resource. A resource without a preference is left out; one
    /// without hints cannot be allocated.
    pub fn hints(&self, pod: &Pod, container: &str) -> BTreeMap<String, Vec<Hint>> {
        let requests = PodRequests::of(pod);
        self.shared.read(|state| state.hints(&requests, container))
    }

    /// The same for all containers of a pod together.
    pub fn pod_hints(&self, pod: &Pod) -> BTreeMap<String, Vec<Hint>> {
        let requests = PodRequests::of(pod);
        self.shared.read(|state| state.pod_hints(&requests))
    }

    /// Allocates a container's devices, and records that, if it does not have them already. Containers are to be allocated in the order of
    /// the pod's spec, init containers first. Idempotent. Cut short, it may have allocated some of them.
    ///
    /// # Errors
    /// Not all devices are allocated. Those that are remain so until the pod is released.
    pub async fn allocate(
        &self,
        pod: &Pod,
        container: &str,
        affinity: Option<&Hint>,
        stage: PodStage,
    ) -> Result<(), AllocateError> {
        let requests = PodRequests::of(pod);
        let Some(amounts) = requests.container(container).map(|of| of.amounts.clone()) else { return Ok(()) };
        let step = |resource: &str| {
            let now = Instant::now();
            self.shared.read(|state| state.step(&requests, container, resource, affinity, stage, now))
        };
        // Nothing is allocated while the pod has to wait for something else.
        amounts.keys().try_for_each(|resource| step(resource).map(drop))?;
        let mut new = Vec::new();
        for resource in amounts.keys() {
            let _turn = self.shared.lock(resource).await;
            let proposal = match step(resource)? {
                Step::Held => continue,
                Step::Allocate(proposal) => proposal,
            };
            let allocation = self.call(resource, proposal).await?;
            let uid = &requests.uid;
            self.shared.change(|state| state.allocations.insert(uid, container, resource, allocation));
            new.push(resource.as_str());
        }
        self.record(&requests.uid, container, &new).await
    }

    /// Asks the plugin which devices it prefers, and then for them.
    async fn call(&self, resource: &str, proposal: Proposal) -> Result<Allocation, AllocateFailure> {
        let Proposal { choice, options, plugin } = proposal;
        let question = choice.question().filter(|_| options.preferences);
        let preferred = match question {
            Some(question) => {
                plugin.preferred(&question).await.map_err(|e| AllocateFailure::preference(&e))?
            }
            None => BTreeSet::new(),
        };
        let ids = choice.devices(&preferred);
        let began = Instant::now();
        let response = plugin.allocate(&ids).await;
        self.shared.metrics.allocated(resource, began.elapsed());
        let response = response.map_err(|error| AllocateFailure::call(&error))?;
        let response =
            response.ok_or_else(|| AllocateFailure::NoResponse { resource: resource.to_owned() })?;
        let devices = self.shared.read(|state| {
            let list = state.inventory.devices(resource);
            by_node(&ids, list.unwrap_or(&BTreeMap::new()))
        });
        tracing::info!(resource, devices = ?ids, "devices are allocated");
        Ok(Allocation { devices, response })
    }

    /// Records what was allocated. What cannot be recorded is taken back, so that nobody starts with it.
    async fn record(&self, uid: &PodUid, container: &str, new: &[&str]) -> Result<(), AllocateError> {
        if new.is_empty() {
            return Ok(());
        }
        let Err(error) = self.shared.save().await else { return Ok(()) };
        self.shared.change(|state| {
            new.iter().for_each(|resource| state.allocations.remove(uid, container, resource));
        });
        Err(AllocateFailure::Checkpoint { message: error_chain(&error) }.into())
    }

    /// What a container is given for its devices; `None` if it has none.
    pub fn grant(&self, uid: &PodUid, container: &str) -> Option<ContainerGrant> {
        let (grant, conflicts) =
            self.shared.read(|state| state.allocations.of_container(uid, container).map(grant))?;
        for conflict in conflicts {
            tracing::warn!(pod = %uid, container, conflict, "device plugins contradict each other");
        }
        Some(grant)
    }

    /// Asks the plugins of a container's devices to prepare them for its next start, if they want that.
    ///
    /// # Errors
    /// The container must not start now.
    pub async fn pre_start(
        &self,
        uid: &PodUid,
        container: &str,
        stage: PodStage,
    ) -> Result<(), PreStartError> {
        let now = Instant::now();
        let preparations = self.shared.read(|state| state.preparations(uid, container, stage, now))?;
        for preparation in preparations {
            let prepared = preparation.plugin.pre_start(&preparation.devices).await;
            prepared.map_err(|error| PreStartError::Call { message: error.to_string() })?;
        }
        Ok(())
    }

    /// Releases the devices of all pods but these, which must be all that were admitted and have not terminated, and all that are about to
    /// be admitted. Not to be called before all sources of pods are known.
    pub fn retain(&self, pods: &BTreeSet<PodUid>) {
        if self.shared.read(|state| state.allocations.iter().all(|(uid, ..)| pods.contains(uid))) {
            return;
        }
        self.shared.change(|state| state.allocations.retain(pods));
    }

    /// The health of a container's devices, as its status has it (`allocatedResourcesStatus`).
    pub fn health(&self, uid: &PodUid, container: &str) -> Vec<ResourceStatus> {
        self.shared.read(|state| {
            let held = state.allocations.of_container(uid, container).into_iter().flatten();
            let status = held.map(|(resource, allocation)| {
                let device = |id: String| ResourceHealth {
                    health: Some(state.inventory.health(resource, &id).name().to_owned()),
                    resource_id: id,
                    ..ResourceHealth::default()
                };
                ResourceStatus {
                    name: resource.clone(),
                    resources: Some(allocation.ids().into_iter().map(device).collect()),
                }
            });
            status.collect()
        })
    }

    /// A container's devices.
    pub fn held(&self, uid: &PodUid, container: &str) -> Vec<HeldDevices> {
        self.shared.read(|state| report::held(state, uid, container))
    }

    /// The healthy devices of all resources, allocated or not.
    pub fn healthy(&self) -> Vec<HeldDevices> {
        self.shared.read(report::healthy)
    }

    /// All resources with their devices, for users. Pods have no names.
    pub fn views(&self) -> Vec<ResourceView> {
        let (clock, now) = (self.shared.clock.now(), Instant::now());
        self.shared.read(|state| report::views(state, clock, now))
    }

    /// What a person should know: a damaged checkpoint, a socket that cannot be served. Sentences.
    pub fn problems(&self) -> Vec<String> {
        self.shared.problems()
    }

    /// Why plugins cannot register; `None` if they can. Upstream's check `device-plugin` of `/healthz`.
    pub fn socket_problem(&self) -> Option<String> {
        self.shared.socket_problem()
    }
}
