//! A host for tests: the task of claims, drivers in memory that come and go, restarts of the daemon and of the host.

use std::collections::BTreeMap;
use std::sync::Arc;

use hostlet_base::Conflated;
use k8s_openapi::api::core::v1::{Container, Pod};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::drivers::Services;
use crate::fake::{FakeClaims, FakeDriver};
use crate::health::HealthStore;
use crate::{Claims, ClaimsSettings, PrepareError, ReleaseError};

pub(crate) const GPU: &str = "gpu.example.com";
pub(crate) const NIC: &str = "nic.example.com";

/// The host.
pub(crate) struct Host {
    dir: TempDir,
    boot: u32,
    pub(crate) api: FakeClaims,
    services: watch::Sender<Services>,
    pub(crate) drivers: BTreeMap<&'static str, FakeDriver>,
    pub(crate) claims: Claims,
    task: JoinHandle<()>,
}

impl Host {
    /// With both drivers registered.
    pub(crate) fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let drivers = [GPU, NIC].map(|name| (name, FakeDriver::new(name))).into();
        let (services, api) = (watch::Sender::default(), FakeClaims::default());
        let (claims, task) = start(&dir, 0, &api, &services);
        let host = Self { dir, boot: 0, api, services, drivers, claims, task };
        host.register(GPU);
        host.register(NIC);
        host
    }

    pub(crate) fn register(&self, driver: &'static str) {
        let service = Arc::new(self.drivers[driver].clone());
        self.services.send_modify(|services| drop(services.insert(driver.to_owned(), service)));
    }

    pub(crate) fn deregister(&self, driver: &str) {
        self.services.send_modify(|services| drop(services.remove(driver)));
    }

    /// The next daemon. Calls under way are lost.
    pub(crate) async fn restart(&mut self) {
        self.task.abort();
        let _ = (&mut self.task).await;
        (self.claims, self.task) = start(&self.dir, self.boot, &self.api, &self.services);
    }

    /// The host boots: nothing is prepared anymore.
    pub(crate) async fn reboot(&mut self) {
        self.boot += 1;
        self.restart().await;
        self.drivers.values().for_each(FakeDriver::reboot);
    }

    pub(crate) async fn prepare(&self, pod: &Pod) -> Result<(), PrepareError> {
        self.claims.prepare(pod).await
    }

    pub(crate) async fn release(&self, pod: &Pod) -> Result<(), ReleaseError> {
        self.claims.release(&pod.metadata.uid.as_deref().unwrap().into()).await
    }

    pub(crate) fn path(&self) -> std::path::PathBuf {
        self.dir.path().join("dra_manager_state")
    }
}

fn start(
    dir: &TempDir,
    boot: u32,
    api: &FakeClaims,
    services: &watch::Sender<Services>,
) -> (Claims, JoinHandle<()>) {
    let settings = ClaimsSettings {
        root: dir.path().to_owned(),
        boot: format!("boot-{boot}"),
        source: Arc::new(api.clone()),
    };
    let health = HealthStore::read(dir.path());
    let (task, claims) = Claims::with_services(settings, services.subscribe(), health, Conflated::default());
    #[expect(clippy::disallowed_methods, reason = "a task of a test")]
    let task = tokio::spawn(task.run(CancellationToken::new()));
    (claims, task)
}

/// A pod of this name and UID in the namespace `ns` that uses these claims in its container `c`.
pub(crate) fn pod(name: &str, claims: &[&str]) -> Pod {
    let listed = |claim: &&str| json!({"name": claim, "resourceClaimName": claim});
    let used: Vec<Value> = claims.iter().map(|claim| json!({"name": claim})).collect();
    let pod = json!({
        "metadata": {"name": name, "namespace": "ns", "uid": name},
        "spec": {
            "containers": [{"name": "c", "resources": {"claims": used}}],
            "resourceClaims": claims.iter().map(listed).collect::<Vec<_>>(),
        },
    });
    serde_json::from_value(pod).unwrap()
}

/// The pod's container.
pub(crate) fn container(pod: &Pod) -> &Container {
    &pod.spec.as_ref().unwrap().containers[0]
}
