//! Pods, plugins and a state with its time for the tests of this crate.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use hostlet_proto::device_plugin::ContainerAllocateResponse;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::allocation::{Allocation, Allocations};
use crate::choice::Question;
use crate::client::{CallError, DevicePlugin, PluginOptions};
use crate::device::{Device, DeviceIds, DeviceList, Health, by_node};
use crate::error::{AllocateError, NotYet};
use crate::inventory::{ConnectionId, Instance, Inventory};
use crate::requests::PodRequests;
use crate::state::{PodStage, State, Step};

/// The resource of most tests.
pub(crate) const GPU: &str = "example.com/gpu";

/// A host that did not boot lately.
pub(crate) const DAY: Duration = Duration::from_secs(24 * 3600);

/// A container that requests this many GPUs.
pub(crate) fn container(name: &str, count: usize) -> Value {
    json!({"name": name, "resources": {"limits": {GPU: count.to_string()}}})
}

/// A sidecar that requests this many.
pub(crate) fn sidecar(name: &str, count: usize) -> Value {
    let mut sidecar = container(name, count);
    sidecar["restartPolicy"] = json!("Always");
    sidecar
}

/// A pod with these containers.
pub(crate) fn pod(uid: &str, init: &[Value], main: &[Value]) -> Pod {
    let pod = json!({
        "metadata": {"name": uid, "namespace": "default", "uid": uid},
        "spec": {"initContainers": init, "containers": main},
    });
    serde_json::from_value(pod).unwrap()
}

/// Devices of this health without NUMA nodes.
pub(crate) fn list(devices: &[(&str, Health)]) -> DeviceList {
    let device = |health| Device { health, nodes: Default::default() };
    devices.iter().map(|(id, health)| ((*id).to_owned(), device(*health))).collect()
}

/// IDs.
pub(crate) fn ids(names: &[&str]) -> DeviceIds {
    names.iter().map(|name| (*name).to_owned()).collect()
}

/// A plugin that agrees to everything.
pub(crate) struct Agreeing;

#[async_trait]
impl DevicePlugin for Agreeing {
    async fn preferred(&self, _: &Question) -> Result<DeviceIds, CallError> {
        Ok(DeviceIds::new())
    }

    async fn allocate(&self, _: &DeviceIds) -> Result<Option<ContainerAllocateResponse>, CallError> {
        Ok(Some(ContainerAllocateResponse::default()))
    }

    async fn pre_start(&self, _: &DeviceIds) -> Result<(), CallError> {
        Ok(())
    }
}

/// A connected instance, on a socket of its own or that of another one.
pub(crate) fn instance(id: u64, socket: &str, options: PluginOptions, now: Instant) -> Instance {
    Instance {
        id: ConnectionId(id),
        socket: socket.into(),
        options,
        plugin: Arc::new(Agreeing),
        since: Timestamp::UNIX_EPOCH,
        connected: now,
        _follower: CancellationToken::new().drop_guard(),
    }
}

/// The state, and the time.
pub(crate) struct World {
    pub(crate) state: State,
    pub(crate) now: Instant,
    next: u64,
}

impl World {
    /// A host that booted long ago, after a start with these devices in the checkpoint.
    pub(crate) fn after(uptime: Duration, registered: &[&str], allocations: Allocations) -> Self {
        let now = Instant::now();
        let registered = match registered {
            [] => BTreeMap::new(),
            devices => BTreeMap::from([(GPU.to_owned(), ids(devices))]),
        };
        let inventory = Inventory::new(registered, uptime, now);
        Self { state: State { inventory, allocations, nodes: [0, 1].into() }, now, next: 0 }
    }

    pub(crate) fn with(devices: &[&str]) -> Self {
        let mut world = Self::after(DAY, &[], Allocations::default());
        world.plugin(devices);
        world
    }

    /// A plugin that lists these healthy devices.
    pub(crate) fn plugin(&mut self, devices: &[&str]) -> ConnectionId {
        let id = self.connect("p.sock", PluginOptions::default());
        let devices: Vec<(&str, Health)> = devices.iter().map(|id| (*id, Health::Healthy)).collect();
        self.list(id, list(&devices));
        id
    }

    pub(crate) fn connect(&mut self, socket: &str, options: PluginOptions) -> ConnectionId {
        self.next += 1;
        self.state.inventory.connected(GPU, instance(self.next, socket, options, self.now));
        ConnectionId(self.next)
    }

    pub(crate) fn list(&mut self, id: ConnectionId, list: DeviceList) -> DeviceIds {
        self.state.inventory.listed(GPU, id, list)
    }

    pub(crate) fn disconnect(&mut self, id: ConnectionId) {
        self.state.inventory.disconnected(GPU, id, self.now);
    }

    pub(crate) fn passes(&mut self, time: Duration) {
        self.now += time;
        self.state.inventory.expire(self.now);
    }

    /// Allocates a container's devices as the handle does.
    pub(crate) fn allocate(
        &mut self,
        pod: &Pod,
        container: &str,
        stage: PodStage,
    ) -> Result<DeviceIds, String> {
        self.try_allocate(pod, container, stage).map_err(|error| error.to_string())
    }

    pub(crate) fn try_allocate(
        &mut self,
        pod: &Pod,
        container: &str,
        stage: PodStage,
    ) -> Result<DeviceIds, AllocateError> {
        let requests = PodRequests::of(pod);
        let step = self.state.step(&requests, container, GPU, None, stage, self.now)?;
        if let Step::Allocate(proposal) = step {
            let ids = proposal.choice.devices(&DeviceIds::new());
            let devices = by_node(&ids, self.state.inventory.devices(GPU).unwrap());
            let allocation = Allocation { devices, response: Default::default() };
            self.state.allocations.insert(&requests.uid, container, GPU, allocation);
        }
        Ok(self.state.allocations.of(&requests.uid, container, GPU).map(Allocation::ids).unwrap_or_default())
    }

    /// All containers of a pod.
    pub(crate) fn admit(&mut self, pod: &Pod) -> Result<Vec<DeviceIds>, String> {
        let containers = PodRequests::of(pod).containers;
        containers.iter().map(|container| self.allocate(pod, &container.name, PodStage::New)).collect()
    }

    pub(crate) fn awaited(&mut self, pod: &Pod) -> NotYet {
        match self.try_allocate(pod, "main", PodStage::New) {
            Err(AllocateError::NotYet(awaited)) => awaited,
            other => panic!("does not wait: {other:?}"),
        }
    }
}
