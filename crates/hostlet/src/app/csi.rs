//! Volumes of CSI drivers: what the parts that know the drivers, the volumes and the cluster learn of each other.

use hostlet_base::watching::{changed, publish};
use hostlet_cluster::node::VolumesInUse;
use hostlet_csi::{DriverObjects, KnownDrivers, used_of_spec};
use hostlet_pod::objects::{CsiDriverSpecs, Standalone};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::tasks::{Stage, Tasks};

/// What the cluster's tasks learn of the volumes and their drivers.
pub(super) struct CsiInputs {
    pub(super) volumes_in_use: VolumesInUse,
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
