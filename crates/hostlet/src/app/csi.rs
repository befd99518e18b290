//! Volumes of CSI drivers: what the parts that know the drivers, the volumes and the cluster learn of each other.

use std::sync::Arc;

use futures::FutureExt;
use hostlet_base::node::NodeEvents;
use hostlet_base::watching::{changed, publish};
use hostlet_cluster::csi::{CsiNodeDeps, CsiNodeTask, NodeInfoUpdates, NodeInfos, RefreshNodeInfo};
use hostlet_cluster::node::{LatestNode, NodeSettings, VolumesInUse};
use hostlet_csi::{DriverObjects, KnownDrivers, used_of_spec};
use hostlet_pod::objects::{CsiDriverSpecs, Standalone};
use hostlet_store::Store;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::cluster::Cluster;
use super::tasks::{Stage, Tasks};

/// The registered drivers.
pub(super) struct RegisteredDrivers {
    /// What they say of this node.
    pub(super) infos: watch::Receiver<NodeInfos>,
    /// Asks one of them again.
    pub(super) refresh: RefreshNodeInfo,
}

impl RegisteredDrivers {
    /// No driver can register.
    pub(super) fn none() -> Self {
        let refresh: RefreshNodeInfo = Arc::new(|_driver| std::future::ready(Ok(())).boxed());
        Self { infos: watch::Sender::default().subscribe(), refresh }
    }
}

/// What is published of drivers and volumes on the API server.
pub(super) struct CsiPublication {
    pub(super) volumes_in_use: VolumesInUse,
    /// Why the node is not ready for volumes.
    pub(super) storage: watch::Receiver<Option<String>>,
    csi_node: CsiNodeTask,
    updates: NodeInfoUpdates,
}

/// What the publication reads.
pub(super) struct CsiPublicationDeps {
    pub(super) settings: Arc<NodeSettings>,
    pub(super) latest_node: LatestNode,
    pub(super) objects: DriverObjects,
    pub(super) drivers: RegisteredDrivers,
    pub(super) volumes_in_use: VolumesInUse,
    pub(super) store: Store,
    pub(super) events: NodeEvents,
}

impl CsiPublication {
    pub(super) fn new(cluster: &Cluster, deps: CsiPublicationDeps) -> Self {
        let (csi_node, storage) = CsiNodeTask::new(CsiNodeDeps {
            client: cluster.node_client(),
            settings: deps.settings,
            latest_node: deps.latest_node,
            drivers: deps.drivers.infos.clone(),
            store: deps.store,
            events: deps.events,
        });
        let updates = NodeInfoUpdates {
            objects: deps.objects,
            drivers: deps.drivers.infos,
            refresh: deps.drivers.refresh,
        };
        Self { volumes_in_use: deps.volumes_in_use, storage, csi_node, updates }
    }

    pub(super) fn spawn(self, tasks: &mut Tasks) {
        let Self { csi_node, updates, .. } = self;
        tasks.spawn(Stage::Node, "CSINode", |cancel| csi_node.run(cancel));
        tasks.spawn(Stage::Publish, "CSI driver limits", |cancel| updates.run(cancel));
    }
}

/// The CSIDriver objects of manifests, on a host without an API server.
pub(super) fn drivers_of_manifests(objects: &Standalone, tasks: &mut Tasks) -> DriverObjects {
    let (known, receiver) = watch::channel(KnownDrivers::default());
    let specs = objects.csi_drivers();
    tasks.spawn_reader(Stage::Support, "CSIDriver objects", |cancel| follow(specs, known, cancel));
    DriverObjects::new(receiver)
}

async fn follow(
    mut specs: watch::Receiver<Option<CsiDriverSpecs>>,
    known: watch::Sender<KnownDrivers>,
    cancel: CancellationToken,
) {
    loop {
        if let Some(specs) = &*specs.borrow_and_update() {
            publish(&known, of_manifests(specs));
        }
        tokio::select! {
            // Cancel-safe: waits for a token.
            () = cancel.cancelled() => return,
            // Cancel-safe: a watch marks its value seen only when it returns.
            () = changed(&mut specs) => {}
        }
    }
}

fn of_manifests(specs: &CsiDriverSpecs) -> KnownDrivers {
    let used = specs.iter().map(|(name, spec)| (name.clone(), used_of_spec((**spec).clone()).into()));
    KnownDrivers { specs: used.collect(), is_listed: true }
}
