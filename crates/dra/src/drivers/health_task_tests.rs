//! The task that follows the health of devices, with scripted streams in paused time.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures::StreamExt;
use futures::stream;
use hostlet_base::PodUid;
use hostlet_plugins::InstanceId;
use hostlet_proto::dra_health::{DeviceHealth, DeviceIdentifier, HealthStatus, NodeWatchResourcesResponse};
use parking_lot::Mutex;
use tokio::sync::{mpsc, watch};
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::HealthTask;
use super::shared::HealthServices;
use crate::client::{HealthService, HealthStream, WatchError};
use crate::health::HealthStore;
use crate::testing::{GPU, Host, container, pod};

type Message = Result<NodeWatchResourcesResponse, WatchError>;

/// A driver that says what the test sends.
#[derive(Clone, Default)]
struct Driver {
    says: Arc<Mutex<Option<mpsc::Sender<Message>>>>,
    is_unable: bool,
    watches: Arc<Mutex<usize>>,
}

#[async_trait]
impl HealthService for Driver {
    async fn watch(&self) -> Result<HealthStream, WatchError> {
        *self.watches.lock() += 1;
        if self.is_unable {
            return Err(WatchError::Unimplemented);
        }
        let (sender, receiver) = mpsc::channel(8);
        *self.says.lock() = Some(sender);
        Ok(stream::unfold(receiver, |mut receiver| async { Some((receiver.recv().await?, receiver)) })
            .boxed())
    }
}

impl Driver {
    /// Reports the device of claim `a`.
    async fn says(&self, health: HealthStatus, message: &str, seconds: i64) {
        let device = DeviceHealth {
            device: Some(DeviceIdentifier {
                pool_name: "pool".to_owned(),
                device_name: "device-ua".to_owned(),
            }),
            health: health.into(),
            last_updated_time: 0,
            health_check_timeout_seconds: seconds,
            message: message.to_owned(),
        };
        let sender = loop {
            // Cloned apart, so that the lock is not held while it waits.
            let known = self.says.lock().clone();
            match known.filter(|sender| !sender.is_closed()) {
                Some(sender) => break sender,
                None => sleep(Duration::from_millis(100)).await,
            }
        };
        sender.send(Ok(NodeWatchResourcesResponse { devices: vec![device] })).await.unwrap();
    }
}

/// A pod with a device of claim `a`, and the health of that.
struct Bed {
    host: Host,
    services: watch::Sender<HealthServices>,
    pod: k8s_openapi::api::core::v1::Pod,
}

impl Bed {
    async fn new() -> Self {
        let host = Host::new();
        host.api.set("a", "ua", &[GPU], &["p1"]);
        let pod = pod("p1", &["a"]);
        host.prepare(&pod).await.unwrap();
        let services = watch::Sender::new(BTreeMap::new());
        let task = HealthTask::new(services.subscribe(), host.claims.shared.health.clone());
        #[expect(clippy::disallowed_methods, reason = "a task of a test")]
        let _task = tokio::spawn(task.for_claims(host.claims.clone()).run(CancellationToken::new()));
        Self { host, services, pod }
    }

    fn register(&self, id: u64, driver: &Driver) {
        let service: Arc<dyn HealthService> = Arc::new(driver.clone());
        self.services.send_modify(|all| drop(all.insert(GPU.to_owned(), (InstanceId(id), service))));
    }

    /// Waits for news of the pod. Returns the health of its device.
    async fn changed(&self) -> (String, Option<String>) {
        let pod = timeout(Duration::from_secs(300), self.host.claims.changed()).await;
        assert_eq!(pod, Ok(PodUid::from("p1")));
        self.health()
    }

    fn health(&self) -> (String, Option<String>) {
        let statuses = self.host.claims.health(&self.pod, container(&self.pod));
        assert_eq!((statuses.len(), statuses[0].name.as_str()), (1, "claim:a"));
        let device = &statuses[0].resources.as_ref().unwrap()[0];
        assert_eq!(device.resource_id, "gpu.example.com/device=ua");
        (device.health.clone().unwrap(), device.message.clone())
    }
}

fn health(health: &str, message: Option<&str>) -> (String, Option<String>) {
    (health.to_owned(), message.map(str::to_owned))
}

#[tokio::test(start_paused = true)]
async fn pods_learn_how_their_devices_are() {
    let (bed, driver) = (Bed::new().await, Driver::default());
    assert_eq!(bed.health(), health("Unknown", None));
    bed.register(1, &driver);
    driver.says(HealthStatus::Healthy, "", 0).await;
    assert_eq!(bed.changed().await, health("Healthy", None));
    // The same again is no news, and keeps it valid.
    sleep(Duration::from_secs(20)).await;
    driver.says(HealthStatus::Healthy, "", 0).await;
    sleep(Duration::from_secs(20)).await;
    assert_eq!(bed.health(), health("Healthy", None));
    driver.says(HealthStatus::Unhealthy, "too hot", 5).await;
    assert_eq!(bed.changed().await, health("Unhealthy", Some("too hot")));
    // It is not said again in time.
    assert_eq!(bed.changed().await, health("Unknown", None));
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_ends_is_opened_again_and_nothing_is_known_meanwhile() {
    let (bed, driver) = (Bed::new().await, Driver::default());
    bed.register(1, &driver);
    driver.says(HealthStatus::Healthy, "", 0).await;
    assert_eq!(bed.changed().await, health("Healthy", None));
    *driver.says.lock() = None;
    assert_eq!(bed.changed().await, health("Unknown", None));
    driver.says(HealthStatus::Unhealthy, "", 0).await;
    assert_eq!(bed.changed().await, health("Unhealthy", None));
    assert_eq!(*driver.watches.lock(), 2);
    // Another instance takes over; then the driver is removed.
    let next = Driver::default();
    bed.register(2, &next);
    assert_eq!(bed.changed().await, health("Unknown", None));
    next.says(HealthStatus::Healthy, "", 0).await;
    assert_eq!(bed.changed().await, health("Healthy", None));
    bed.services.send_modify(BTreeMap::clear);
    assert_eq!(bed.changed().await, health("Unknown", None));
}

#[tokio::test(start_paused = true)]
async fn a_driver_that_cannot_is_asked_once_and_a_restart_forgets_nothing() {
    let bed = Bed::new().await;
    let unable = Driver { is_unable: true, ..Driver::default() };
    bed.register(1, &unable);
    sleep(Duration::from_secs(600)).await;
    assert_eq!((*unable.watches.lock(), bed.health()), (1, health("Unknown", None)));
    let driver = Driver::default();
    bed.register(2, &driver);
    driver.says(HealthStatus::Unhealthy, "broken", 1_000_000).await;
    assert_eq!(bed.changed().await, health("Unhealthy", Some("broken")));
    sleep(Duration::from_secs(5)).await;
    let root = bed.host.path().parent().unwrap().to_owned();
    let stored = HealthStore::read(&root);
    let claims = bed.host.claims.shared.state.lock();
    let claim = claims.ledger.get("ns", "a").unwrap();
    let uses = crate::pod_claims::uses(&bed.pod, container(&bed.pod)).unwrap();
    let status = stored.status(claim, &uses[0]).unwrap();
    assert_eq!(status.resources.unwrap()[0].message.as_deref(), Some("broken"));
}
