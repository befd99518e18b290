//! What the handle, the task and the registrations share: the state, and what follows from it for others. Decides nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use hostlet_base::node::PluginResources;
use hostlet_base::{Conflated, Quantity, WallClock, watching};
use parking_lot::Mutex;
use tokio::sync::{Notify, watch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::checkpoint::{CheckpointFile, Loaded, encode};
use crate::client::{DevicePlugin, PluginOptions};
use crate::device::{DeviceIds, DeviceList};
use crate::inventory::{ConnectionId, Instance, Inventory};
use crate::metrics::DeviceMetrics;
use crate::record::{Record, RecordError};
use crate::state::State;

/// Where things are, and when the host booted.
#[derive(Clone, Debug)]
pub struct DevicesSettings {
    /// The directory of device plugins' sockets and of the checkpoint: `device-plugins` in the kubelet's root.
    pub dir: PathBuf,
    /// hostlet's copy of the checkpoint, in an existing directory.
    pub copy: PathBuf,
    /// The NUMA nodes of the machine.
    pub numa_nodes: BTreeSet<u32>,
    /// How long ago the host booted.
    pub uptime: Duration,
}

/// The shared state.
pub(crate) struct Shared {
    state: Mutex<State>,
    record: Record,
    dir: PathBuf,
    pub(crate) existed: bool,
    pub(crate) clock: WallClock,
    pub(crate) metrics: DeviceMetrics,
    /// Serializes the calls about one resource, by name.
    allocating: Mutex<BTreeMap<String, Arc<tokio::sync::Mutex<()>>>>,
    next_id: Mutex<u64>,
    /// The state changed, so that the task may have something to do.
    pub(crate) changed: Notify,
    capacity: watch::Sender<PluginResources>,
    resources: watch::Sender<BTreeSet<String>>,
    revision: watch::Sender<u64>,
    health: Conflated<()>,
    /// What was wrong with the checkpoint.
    damage: Option<String>,
    socket_problem: Mutex<Option<String>>,
}

impl Shared {
    /// The state after a start, from the checkpoint. Reads it on this thread.
    pub(crate) fn new(settings: DevicesSettings, clock: WallClock) -> Self {
        let file = CheckpointFile::in_dir(&settings.dir, &settings.copy);
        let Loaded { existed, registered, allocations, damage } = file.load(clock.now());
        let inventory = Inventory::new(registered, settings.uptime, Instant::now());
        let shared = Self {
            state: Mutex::new(State { inventory, allocations, nodes: settings.numa_nodes }),
            damage: damage.as_ref().map(|damage| damage.problem.clone()),
            record: Record::new(file, damage),
            dir: settings.dir,
            existed,
            clock,
            metrics: DeviceMetrics::default(),
            allocating: Mutex::default(),
            next_id: Mutex::new(0),
            changed: Notify::new(),
            capacity: watch::Sender::default(),
            resources: watch::Sender::default(),
            revision: watch::Sender::default(),
            health: Conflated::default(),
            socket_problem: Mutex::default(),
        };
        shared.change(|_| {});
        shared
    }

    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }

    pub(crate) fn read<T>(&self, work: impl FnOnce(&State) -> T) -> T {
        work(&self.state.lock())
    }

    /// Changes the state, and publishes what follows.
    pub(crate) fn change<T>(&self, work: impl FnOnce(&mut State) -> T) -> T {
        let mut state = self.state.lock();
        let result = work(&mut state);
        // With the state locked, so that nobody publishes an older one later.
        // Admission knows a resource before the Node has it, so that no pod is admitted for one that is not known.
        watching::publish(&self.resources, state.resources());
        watching::publish(&self.capacity, plugin_resources(&state.inventory));
        drop(state);
        self.revision.send_modify(|revision| *revision += 1);
        self.changed.notify_one();
        result
    }

    /// A plugin is connected. Returns its ID, and what ends when it is replaced or removed.
    pub(crate) fn connected(
        &self,
        resource: &str,
        socket: &Path,
        options: PluginOptions,
        plugin: Arc<dyn DevicePlugin>,
    ) -> (ConnectionId, CancellationToken) {
        let follower = CancellationToken::new();
        let id = {
            let mut next = self.next_id.lock();
            *next += 1;
            ConnectionId(*next)
        };
        let instance = Instance {
            id,
            socket: socket.to_owned(),
            options,
            plugin,
            since: self.clock.now(),
            connected: Instant::now(),
            _follower: follower.clone().drop_guard(),
        };
        tracing::info!(resource, socket = %socket.display(), "a device plugin is connected");
        self.change(|state| state.inventory.connected(resource, instance));
        (id, follower)
    }

    /// A plugin listed its devices.
    pub(crate) fn listed(&self, resource: &str, id: ConnectionId, list: DeviceList) {
        let count = list.len();
        let healthy = list.values().filter(|device| device.is_healthy()).count();
        tracing::debug!(resource, devices = count, healthy, "a device plugin listed its devices");
        self.report_health(|state| (resource, state.inventory.listed(resource, id, list)));
    }

    /// A plugin is disconnected.
    pub(crate) fn disconnected(&self, resource: &str, id: ConnectionId) {
        let now = Instant::now();
        self.report_health(|state| (resource, state.inventory.disconnected(resource, id, now)));
    }

    /// Changes the state, and reports the pods that have a device whose health changed.
    fn report_health<'a>(&self, change: impl FnOnce(&mut State) -> (&'a str, DeviceIds)) {
        let holders = self.change(|state| {
            let (resource, changed) = change(state);
            state.allocations.holders(resource, &changed)
        });
        for uid in holders {
            self.health.push(&uid, |()| {});
        }
    }

    /// Waits until nobody else allocates devices of a resource. Cancel-safe.
    pub(crate) async fn lock(&self, resource: &str) -> tokio::sync::OwnedMutexGuard<()> {
        let lock = self.allocating.lock().entry(resource.to_owned()).or_default().clone();
        lock.lock_owned().await
    }

    /// Makes the state durable, if it is not.
    pub(crate) async fn save(&self) -> Result<(), RecordError> {
        let content = || self.read(|state| encode(&state.inventory.registered(), &state.allocations));
        self.record.write(content).await
    }

    pub(crate) fn capacity(&self) -> watch::Receiver<PluginResources> {
        self.capacity.subscribe()
    }

    pub(crate) fn resources(&self) -> watch::Receiver<BTreeSet<String>> {
        self.resources.subscribe()
    }

    pub(crate) fn revision(&self) -> watch::Receiver<u64> {
        self.revision.subscribe()
    }

    pub(crate) fn health(&self) -> Conflated<()> {
        self.health.clone()
    }

    /// Whether plugins can register; if not, why.
    pub(crate) fn set_socket_problem(&self, problem: Option<String>) {
        *self.socket_problem.lock() = problem;
    }

    /// What was wrong with the checkpoint at the start.
    pub(crate) fn damage(&self) -> Option<&str> {
        self.damage.as_deref()
    }

    /// What a person should know, as sentences.
    pub(crate) fn problems(&self) -> Vec<String> {
        self.damage.iter().cloned().chain(self.socket_problem.lock().clone()).collect()
    }

    /// Why plugins cannot register; `None` if they can.
    pub(crate) fn socket_problem(&self) -> Option<String> {
        self.socket_problem.lock().clone()
    }
}

fn plugin_resources(inventory: &Inventory) -> PluginResources {
    let count = |count: usize| Quantity::count(u64::try_from(count).unwrap_or(u64::MAX));
    let mut resources = PluginResources { removed: inventory.removed().clone(), ..Default::default() };
    for (name, all, usable) in inventory.counts() {
        resources.capacity.set(name, count(all));
        resources.allocatable.set(name, count(usable));
    }
    resources
}
