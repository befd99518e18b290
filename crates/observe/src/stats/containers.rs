//! The disk space of a pod's running containers: writable layers as the runtime measures them, and log files. Which files count is
//! upstream's choice (`calcEphemeralStorage`).

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::error::MeasureError;
use super::settings::StorageSettings;
use super::storage::{ContainerStorage, ContainersStorage};
use hostlet_base::{ContainerId, PodRef};
use hostlet_host::{SysError, file_work, files_usage, tree_usage};
use hostlet_runtime::cri::{ContainerState, ContainerStats, WritableLayer};

/// Measures the running containers of a pod with this hosts file.
pub(super) async fn measure(
    settings: &StorageSettings,
    pod: &PodRef,
    hosts: PathBuf,
) -> Result<ContainersStorage, MeasureError> {
    let running = running(settings, pod);
    let layers = if running.is_empty() {
        BTreeMap::new()
    } else {
        let stats = settings.runtime.container_stats(Some(&pod.uid)).await;
        let stats = stats.map_err(|source| MeasureError::WritableLayers { source })?;
        let is_running = |stats: &ContainerStats| running.iter().any(|(id, _)| *id == stats.id);
        let all = stats.into_iter().filter(is_running);
        all.filter_map(|stats| Some((stats.name, stats.writable_layer?))).collect()
    };
    let (logs, root, pod) = (settings.logs.clone(), settings.root_dir.clone(), pod.clone());
    let measured = file_work(move || {
        let mut storage = ContainersStorage::default();
        for (_, name) in running {
            let mut container = layers.get(&name).map(|layer| of_layer(layer, &root)).unwrap_or_default();
            container.logs = files_usage(&logs.container_dir(&pod, &name))?.bytes;
            storage.by_name.insert(name, container);
        }
        storage.pod_files =
            files_usage(&logs.pod_dir(&pod))?.bytes + tree_usage(&hosts, u64::MAX)?.space.bytes;
        Ok(storage)
    });
    let measured = measured.await.map_err(|source| SysError::Step { source });
    measured.and_then(|measured| measured).map_err(|source| MeasureError::Files { source })
}

/// The running containers, as last observed.
fn running(settings: &StorageSettings, pod: &PodRef) -> Vec<(ContainerId, Arc<str>)> {
    let Ok(observed) = settings.observed.get(pod) else { return Vec::new() };
    let running = observed.containers.iter().filter(|container| container.state == ContainerState::Running);
    running.map(|container| (container.id.clone(), container.name.clone())).collect()
}

fn of_layer(layer: &WritableLayer, root: &Path) -> ContainerStorage {
    let device = |path: &Path| fs::metadata(path).ok().map(|at| at.dev());
    let elsewhere = layer.filesystem.as_deref().and_then(device).zip(device(root));
    ContainerStorage {
        writable_layer: layer.bytes,
        is_layer_elsewhere: elsewhere.is_some_and(|(layer, root)| layer != root),
        logs: 0,
    }
}
