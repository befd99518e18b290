//! The inputs of the status: watch channels, so that the status task waits for no observer.

use std::net::IpAddr;
use std::sync::Arc;

use hostlet_base::node::{NodeAddresses, NodePressure, PluginResources, PressureStates};
use hostlet_host::Machine;
use hostlet_observe::pleg;
use hostlet_runtime::cri::RuntimeStatus;
use hostlet_telemetry::Metrics;
use tokio::sync::watch;
use tokio::time::Instant;

use super::health::{Health, unready};
use super::{HostFacts, KernelConditions, NodeFacts, RuntimeFacts, VolumesInUse};

/// Facts that are reported as soon as they change: they matter to clients, to the scheduler, or to a volume that waits.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct UrgentFacts {
    addresses: Arc<[IpAddr]>,
    pressures: PressureStates,
    kernel: KernelConditions,
    volumes_in_use: Vec<String>,
    devices: PluginResources,
    storage: Option<String>,
    others: Vec<String>,
}

/// Watch channels of everything that is observed of this node.
#[derive(Clone)]
pub struct NodeInputs {
    /// Hardware, kernel and operating system of the host.
    pub host: watch::Receiver<Machine>,
    /// Its addresses; no status is reported before the first lookup.
    pub addresses: NodeAddresses,
    /// The runtime's version and images.
    pub runtime: watch::Receiver<RuntimeFacts>,
    /// The runtime's own status.
    pub status: watch::Receiver<Option<RuntimeStatus>>,
    /// When the runtime last reported that it is ready.
    pub ready_at: watch::Receiver<Option<Instant>>,
    /// Health of the PLEG.
    pub pleg: watch::Receiver<pleg::Health>,
    /// The node's pressures, and what was seen of their signals.
    pub pressure: watch::Receiver<NodePressure>,
    /// The conditions that follow from the kernel's log.
    pub kernel: watch::Receiver<KernelConditions>,
    /// The volumes that must not be detached.
    pub volumes_in_use: VolumesInUse,
    /// What device plugins offer.
    pub devices: watch::Receiver<PluginResources>,
    /// Why volumes of CSI drivers cannot be used yet, in upstream's words; `None` if they can.
    pub storage: watch::Receiver<Option<String>>,
    /// Other reasons why the node is not ready, in upstream's words: a shutdown.
    pub others: watch::Receiver<Vec<String>>,
}

impl NodeInputs {
    /// Why the node is not ready at `now`; empty if it is ready.
    pub(super) fn unready(&self, now: Instant) -> Vec<String> {
        // A node is not reported ready without the runtime's version.
        self.unready_with(self.runtime.borrow().version.is_some(), now)
    }

    /// Registers whether the node is ready, for hosts whose Node no API server shows. The runtime's version does not matter.
    pub fn register_ready(self, metrics: &Metrics) {
        let help = "Whether the node is ready. The reasons why it is not are in `hostlet explain`.";
        metrics.register_gauge("hostlet_node_ready", help, move || {
            vec![(Vec::new(), self.unready_with(true, Instant::now()).is_empty().into())]
        });
    }

    fn unready_with(&self, is_runtime_known: bool, now: Instant) -> Vec<String> {
        let status = self.status.borrow();
        let (pleg, storage, others) = (self.pleg.borrow(), self.storage.borrow(), self.others.borrow());
        let health = Health {
            status: status.as_ref().filter(|_| is_runtime_known),
            ready_at: *self.ready_at.borrow(),
            pleg: &pleg,
            storage: storage.as_deref(),
            others: &others,
        };
        unready(&health, now)
    }

    /// All facts at `now`; `None` before the first lookup of addresses.
    pub(super) fn facts(&self, now: Instant) -> Option<NodeFacts> {
        let machine = self.host.borrow().clone();
        let addresses = self.addresses.is_known().then(|| self.addresses.now().to_vec())?;
        Some(NodeFacts {
            host: HostFacts { machine, addresses },
            runtime: self.runtime.borrow().clone(),
            status: self.status.borrow().clone(),
            pressures: self.pressure.borrow().states.clone(),
            kernel: self.kernel.borrow().clone(),
            volumes_in_use: self.volumes_in_use.desired(),
            devices: self.devices.borrow().clone(),
            unready: self.unready(now),
        })
    }

    /// The facts that, besides readiness, are reported as soon as they change.
    pub(super) fn urgent(&self) -> UrgentFacts {
        UrgentFacts {
            addresses: self.addresses.now(),
            pressures: self.pressure.borrow().states.clone(),
            kernel: self.kernel.borrow().clone(),
            volumes_in_use: self.volumes_in_use.desired(),
            devices: self.devices.borrow().clone(),
            storage: self.storage.borrow().clone(),
            others: self.others.borrow().clone(),
        }
    }

    /// Waits for a change that may have to be reported at once; forever once all observers have ended. Cancel-safe.
    pub(super) async fn changed(&mut self) {
        tokio::select! {
            // These are cancel-safe: a watch marks its value seen only when `changed` returns.
            Ok(()) = self.host.changed() => {}
            () = self.addresses.changed() => {}
            Ok(()) = self.runtime.changed() => {}
            Ok(()) = self.status.changed() => {}
            Ok(()) = self.pressure.changed() => {}
            Ok(()) = self.kernel.changed() => {}
            Ok(()) = self.devices.changed() => {}
            Ok(()) = self.storage.changed() => {}
            Ok(()) = self.others.changed() => {}
            // Waits forever once nobody can change them.
            () = self.volumes_in_use.changed() => {}
        }
    }
}
