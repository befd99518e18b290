//! The limits of a pod's local storage, and what must be measured because of them. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use k8s_openapi::api::core::v1::{Container, Volume};

use hostlet_base::Quantity;
use hostlet_base::resources::EPHEMERAL_STORAGE;
use hostlet_host::PodDirs;
use hostlet_observe::stats::{PodPlaces, VolumePlace};
use hostlet_pod::AdmittedPod;
use hostlet_pod::resources::limited_storage;
use hostlet_volume::{empty_dir_path, local_volume_dir};

/// The limits of a pod.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct StorageLimits {
    /// Its emptyDirs with a `sizeLimit`, in the order of the spec.
    pub(super) volumes: Vec<(String, Quantity)>,
    /// Volumes in huge pages, which do not count for the pod.
    pub(super) in_huge_pages: BTreeSet<String>,
    /// The sum over its containers, if any of them has a limit.
    pub(super) pod: Option<Quantity>,
    /// Its volumes that count for the pod.
    pub(super) on_disk: BTreeSet<String>,
    /// Its main containers and sidecars with a limit.
    pub(super) containers: BTreeMap<String, Quantity>,
}

impl StorageLimits {
    /// The limits of the pod; `None` if it has none.
    pub(super) fn of(pod: &AdmittedPod) -> Option<Self> {
        let (mut volumes, mut in_huge_pages) = (Vec::new(), BTreeSet::new());
        for volume in pod.spec().volumes.iter().flatten() {
            let Some(directory) = &volume.empty_dir else { continue };
            let medium = directory.medium.as_deref().unwrap_or_default();
            let limit = directory.size_limit.as_ref().and_then(|limit| Quantity::parse(&limit.0).ok());
            // The kernel limits those in memory.
            let limit = limit.filter(|limit| medium != "Memory" && *limit > Quantity::bytes(0));
            let Some(limit) = limit else { continue };
            volumes.push((volume.name.clone(), limit));
            if !medium.is_empty() {
                in_huge_pages.insert(volume.name.clone());
            }
        }
        let stays = |container: &&Container| container.restart_policy.as_deref() == Some("Always");
        let sidecars = pod.init_containers().iter().filter(stays);
        let containers = sidecars.chain(&pod.spec().containers);
        let limits = Self {
            volumes,
            in_huge_pages,
            pod: limited_storage(pod),
            on_disk: BTreeSet::new(),
            containers: containers.filter_map(|c| Some((c.name.clone(), container_limit(c)?))).collect(),
        };
        let is_on_disk =
            |volume: &&Volume| local_volume_dir(Path::new("/"), &pod.reference.uid, volume).is_some();
        let on_disk = pod.spec().volumes.iter().flatten().filter(is_on_disk);
        (limits != Self::default())
            .then(|| Self { on_disk: on_disk.map(|volume| volume.name.clone()).collect(), ..limits })
    }

    /// What must be measured to enforce these limits. Once a volume has more than its limit or the pod's, it is measured no further.
    pub(super) fn places(&self, pod: &AdmittedPod, root: &Path) -> PodPlaces {
        let uid = &pod.reference.uid;
        let bytes = |limit: &Quantity| u64::try_from(limit.value()).unwrap_or(0);
        let mut volumes = BTreeMap::new();
        for volume in pod.spec().volumes.iter().flatten() {
            let own = self.volumes.iter().find(|(name, _)| *name == volume.name).map(|(_, limit)| limit);
            let (of_pod, path) = match self.in_huge_pages.contains(&volume.name) {
                true => (None, empty_dir_path(root, uid, &volume.name)),
                false => (self.pod.as_ref(), local_volume_dir(root, uid, volume)),
            };
            let Some(enough) = own.into_iter().chain(of_pod).map(bytes).min() else { continue };
            if let Some(path) = path {
                volumes.insert(volume.name.clone(), VolumePlace::limited(path, enough));
            }
        }
        let containers = self.pod.and_then(|_| Some(PodDirs::new(root, uid)?.hosts_file()));
        PodPlaces { pod: pod.reference.clone(), volumes, external: BTreeMap::new(), containers }
    }
}

fn container_limit(container: &Container) -> Option<Quantity> {
    let limits = container.resources.as_ref()?.limits.as_ref()?;
    let limit = Quantity::parse(&limits.get(EPHEMERAL_STORAGE)?.0).ok()?;
    (limit != Quantity::bytes(0)).then_some(limit)
}
