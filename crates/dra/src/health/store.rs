//! The shared health of devices, and its file. Decides nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use hostlet_base::{WallClock, error_chain};
use hostlet_host::{file_work, replace_file};
use hostlet_proto::dra_health::NodeWatchResourcesResponse;
use k8s_openapi::api::core::v1::ResourceStatus;
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::cache::{Cache, DeviceId, reports};
use super::file::{decode, encode};
use super::status::resource_status;
use crate::ledger::Claim;
use crate::pod_claims::Use;

/// Upstream's name.
const FILE: &str = "dra_health_state";
const MODE: u32 = 0o600;

/// The health of devices. Clones share it.
#[derive(Clone)]
pub(crate) struct HealthStore(Arc<Inner>);

struct Inner {
    path: PathBuf,
    cache: Mutex<Cache>,
    clock: WallClock,
    /// It changed.
    changed: Notify,
}

impl HealthStore {
    /// What an earlier daemon knew, from the daemon's directory. Blocks its thread.
    pub(crate) fn read(root: &Path) -> Self {
        let (path, clock) = (root.join(FILE), WallClock::system());
        let cache = match fs::read(&path) {
            Ok(content) => decode(&content, Instant::now(), clock.now()).unwrap_or_else(|error| {
                // Its drivers say it again.
                tracing::warn!(file = %path.display(), error = error_chain(&error), "cannot read the health of devices");
                Cache::default()
            }),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Cache::default(),
            Err(error) => {
                tracing::warn!(file = %path.display(), %error, "cannot read the health of devices");
                Cache::default()
            }
        };
        Self(Arc::new(Inner { path, cache: Mutex::new(cache), clock, changed: Notify::new() }))
    }

    /// Knows nothing, and has no file.
    pub(crate) fn none() -> Self {
        let (path, clock) = (PathBuf::new(), WallClock::system());
        Self(Arc::new(Inner { path, cache: Mutex::default(), clock, changed: Notify::new() }))
    }

    /// Takes a driver's message. Returns the devices whose health is another one now.
    pub(crate) fn update(&self, driver: &str, message: NodeWatchResourcesResponse) -> BTreeSet<DeviceId> {
        let (changed, dropped) = self.0.cache.lock().update(driver, reports(message), Instant::now());
        if dropped > 0 {
            tracing::error!(driver, dropped, "a DRA driver reports the health of too many devices");
        }
        self.0.changed.notify_one();
        changed
    }

    /// A driver reports nothing anymore. Returns its devices.
    pub(crate) fn clear(&self, driver: &str) -> BTreeSet<DeviceId> {
        let cleared = self.0.cache.lock().clear(driver);
        self.0.changed.notify_one();
        cleared
    }

    /// Forgets what does not hold anymore. Returns the devices whose health is another one now, by driver.
    pub(crate) fn expire(&self) -> BTreeMap<String, BTreeSet<DeviceId>> {
        self.0.cache.lock().expire(Instant::now())
    }

    /// When something ends to hold.
    pub(crate) fn next_expiry(&self) -> Option<Instant> {
        self.0.cache.lock().next_expiry()
    }

    /// Waits for a change. Cancel-safe. Has one reader.
    pub(crate) async fn changed(&self) {
        self.0.changed.notified().await;
    }

    /// Writes the file. A failure is harmless: drivers say it again to the next daemon.
    pub(crate) async fn save(&self) {
        let inner = &self.0;
        let content = encode(&inner.cache.lock(), Instant::now(), inner.clock.now());
        let (path, shown) = (inner.path.clone(), inner.path.display());
        let Ok(content) = content else { return };
        let written = file_work(move || replace_file(&path, content.as_bytes(), MODE)).await;
        let problem = match written {
            Ok(Ok(())) => return,
            Ok(Err(error)) => error.to_string(),
            Err(error) => error.to_string(),
        };
        tracing::warn!(file = %shown, error = problem, "cannot record the health of devices");
    }

    /// The status of what a container uses of a claim.
    pub(crate) fn status(&self, claim: &Claim, used: &Use) -> Option<ResourceStatus> {
        resource_status(&self.0.cache.lock(), claim, used, Instant::now())
    }
}
