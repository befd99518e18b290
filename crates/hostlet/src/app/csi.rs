//! Volumes of CSI drivers: what the parts that know the drivers, the volumes and the cluster learn of each other.

use std::sync::Arc;

use hostlet_base::WallClock;
use hostlet_base::node::NodeEvents;
use hostlet_base::watching::{changed, publish};
use hostlet_cluster::csi::{
    ApiAttachments, AttachmentDeps, CsiNodeDeps, CsiNodeTask, NodeInfoUpdates, RefreshNodeInfo,
};
use hostlet_cluster::node::{LatestNode, NodeSettings, VolumesInUse};
use hostlet_config::Config;
use hostlet_csi::{
    Attachments, CsiHandler, CsiSettings, CsiTask, CsiVolumes, DriverObjects, Expansions, KnownDrivers,
    NoAttachments, NodeInfos, VolumesOnDisk, used_of_spec,
};
use hostlet_host::Mounts;
use hostlet_pod::objects::{CsiDriverSpecs, Standalone};
use hostlet_store::Store;
use hostlet_telemetry::Metrics;
use kube::Client;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::tasks::{Stage, Tasks};

/// The drivers and volumes of this node.
pub(super) struct CsiSide {
    pub(super) drivers: CsiHandler,
    pub(super) volumes: CsiVolumes,
    task: CsiTask,
}

impl CsiSide {
    /// Begins to ask the drivers that register. `boot` is the boot of the host, `found` the volumes that its disk tells of.
    pub(super) fn start(
        config: &Config,
        boot: &str,
        store: Store,
        mounts: Arc<dyn Mounts>,
        found: VolumesOnDisk,
        metrics: &Metrics,
        tasks: &mut Tasks,
    ) -> Self {
        let (infos, drivers) = CsiHandler::new(WallClock::system());
        drivers.register(metrics);
        tasks.spawn(Stage::Publish, "CSI drivers", |cancel| infos.run(cancel));
        let settings = CsiSettings {
            root: config.root_dir.clone(),
            node: config.node_name.clone(),
            boot: boot.to_owned(),
            mounts,
            store,
            services: drivers.services(),
            clock: WallClock::system(),
        };
        let (task, volumes) = CsiVolumes::new(settings, found);
        Self { drivers, volumes, task }
    }

    /// Starts to stage and publish.
    pub(super) fn spawn(
        self,
        cluster: Option<&CsiPublication>,
        expansions: Option<Arc<dyn Expansions>>,
        tasks: &mut Tasks,
    ) {
        let attachments: Arc<dyn Attachments> = match cluster {
            Some(cluster) => cluster.attachments.clone(),
            None => Arc::new(NoAttachments),
        };
        // Those that act wait until this host is known to be hostlet's.
        tasks.spawn(Stage::Pods, "CSI volumes", |cancel| self.task.run(attachments, expansions, cancel));
    }
}

/// The registered drivers.
pub(super) struct RegisteredDrivers {
    /// What they say of this node.
    pub(super) infos: watch::Receiver<NodeInfos>,
    /// Asks one of them again.
    pub(super) refresh: RefreshNodeInfo,
}

impl RegisteredDrivers {
    pub(super) fn of(handler: &CsiHandler) -> Self {
        let asked = handler.clone();
        let refresh: RefreshNodeInfo = Arc::new(move |driver: &str| asked.refresh(driver));
        Self { infos: handler.infos(), refresh }
    }
}

/// What is published of drivers and volumes on the API server.
pub(super) struct CsiPublication {
    pub(super) volumes_in_use: VolumesInUse,
    /// Why the node is not ready for volumes.
    pub(super) storage: watch::Receiver<Option<String>>,
    attachments: Arc<ApiAttachments>,
    csi_node: CsiNodeTask,
    updates: NodeInfoUpdates,
}

/// What the publication reads.
pub(super) struct CsiPublicationDeps {
    /// Without a rate limit: a node is not ready before it has a CSINode.
    pub(super) node_client: Client,
    /// For VolumeAttachments.
    pub(super) client: Client,
    pub(super) settings: Arc<NodeSettings>,
    pub(super) latest_node: LatestNode,
    pub(super) objects: DriverObjects,
    pub(super) drivers: RegisteredDrivers,
    pub(super) volumes_in_use: VolumesInUse,
    pub(super) store: Store,
    pub(super) events: NodeEvents,
}

impl CsiPublication {
    pub(super) fn new(deps: CsiPublicationDeps) -> Self {
        let (node_name, node) = (deps.settings.name.clone(), deps.latest_node.subscribe());
        let is_managed = deps.settings.node.controller_attach_detach;
        let (csi_node, storage) = CsiNodeTask::new(CsiNodeDeps {
            client: deps.node_client,
            settings: deps.settings,
            latest_node: deps.latest_node,
            drivers: deps.drivers.infos.clone(),
            store: deps.store,
            events: deps.events,
        });
        let attachments = ApiAttachments::new(AttachmentDeps {
            client: deps.client,
            node_name,
            is_managed,
            node,
            volumes_in_use: deps.volumes_in_use.clone(),
            drivers: deps.objects.clone(),
            refresh: deps.drivers.refresh.clone(),
        });
        let updates = NodeInfoUpdates {
            objects: deps.objects,
            drivers: deps.drivers.infos,
            refresh: deps.drivers.refresh,
        };
        let attachments = Arc::new(attachments);
        Self { volumes_in_use: deps.volumes_in_use, storage, attachments, csi_node, updates }
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
