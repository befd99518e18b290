//! The stored copies of objects: where their key is, or that this host is to have none.

use hostlet_base::WallClock;
use hostlet_cluster::api_objects::OfflineObjects;
use hostlet_config::Config;
use hostlet_host::HostDirs;
use hostlet_store::{KeyPlace, Store};

use super::paths::CONTAINER_LOGS;

/// The copies in `store`. On a standalone host, or if they are switched off, there are none, and what an earlier daemon stored is
/// removed. Blocking.
pub(super) fn offline_objects(config: &Config, store: &Store) -> OfflineObjects {
    let dirs = HostDirs {
        root: config.root_dir.clone(),
        pod_logs: config.pods.logs_dir.clone(),
        container_logs: CONTAINER_LOGS.into(),
    };
    let credentials = std::env::var_os("CREDENTIALS_DIRECTORY").map(Into::into);
    let place = KeyPlace { credentials, file: dirs.objects_key() };
    if config.cluster.as_ref().is_some_and(|joined| joined.offline_objects) {
        return OfflineObjects::new(store.clone(), place, WallClock::system());
    }
    if let Err(error) = OfflineObjects::discard(store, &place) {
        tracing::warn!(file = %place.file.display(), %error, "cannot remove the key of objects that are not stored any more");
    }
    OfflineObjects::default()
}
