//! Attached volumes with a fake API server, in paused time.

use futures::FutureExt;
use hostlet_base::WallClock;
use hostlet_csi::KnownDrivers;
use k8s_openapi::api::storage::v1::CSIDriverSpec;
use parking_lot::Mutex;
use serde_json::{Value, json};

use super::*;
use crate::api::fake::{ApiFault, ApiRule, FakeApi};

const DRIVER: &str = "disk.example.com";

struct Bed {
    api: FakeApi,
    node: watch::Sender<Option<Arc<Node>>>,
    volumes_in_use: VolumesInUse,
    refreshed: Arc<Mutex<Vec<String>>>,
    attachments: ApiAttachments,
}

impl Bed {
    /// A node with a driver that is asked for its limit with this period.
    fn new(period: Option<i64>) -> Self {
        let api = FakeApi::new(WallClock::system());
        let node = watch::Sender::new(None);
        let volumes_in_use = VolumesInUse::none();
        let refreshed = Arc::new(Mutex::new(Vec::new()));
        let log = refreshed.clone();
        let refresh: RefreshNodeInfo = Arc::new(move |driver: &str| {
            log.lock().push(driver.to_owned());
        });
        let spec =
            CSIDriverSpec { node_allocatable_update_period_seconds: period, ..CSIDriverSpec::default() };
        let specs = [(DRIVER.into(), Arc::new(spec))].into();
        let known = watch::Sender::new(KnownDrivers { specs, is_listed: true });
        let attachments = ApiAttachments::new(AttachmentDeps {
            client: api.client(),
            node_name: "node1".to_owned(),
            is_managed: true,
            node: node.subscribe(),
            volumes_in_use: volumes_in_use.clone(),
            drivers: DriverObjects::new(known.subscribe()),
            refresh,
        });
        Self { api, node, volumes_in_use, refreshed, attachments }
    }

    /// The attach-detach controller says that these volumes are attached.
    fn attach(&self, volumes: &[&VolumeId]) {
        let attached: Vec<Value> =
            volumes.iter().map(|volume| json!({"name": volume.unique_name(), "devicePath": ""})).collect();
        let node = json!({"metadata": {"name": "node1"}, "status": {"volumesAttached": attached}});
        self.node.send_replace(Some(Arc::new(serde_json::from_value(node).unwrap())));
    }

    /// The attacher says this.
    fn put(&self, volume: &VolumeId, status: &Value) {
        let spec = json!({"attacher": volume.driver, "nodeName": "node1", "source": {}});
        let name = volume.attachment_name("node1");
        let object = json!({"metadata": {"name": name}, "spec": spec, "status": status});
        let object: VolumeAttachment = serde_json::from_value(object).unwrap();
        self.api.put(&format!("/apis/storage.k8s.io/v1/volumeattachments/{name}"), &object);
    }
}

fn volume(handle: &str) -> VolumeId {
    VolumeId { driver: DRIVER.to_owned(), handle: handle.to_owned() }
}

#[tokio::test(start_paused = true)]
async fn a_volume_is_reported_once_the_node_says_that_it_is_in_use() {
    let bed = Bed::new(None);
    let v = volume("v");
    let waiting = bed.attachments.reported_in_use(&v);
    tokio::pin!(waiting);
    assert_eq!(waiting.as_mut().now_or_never(), None);
    let say = |volumes: &[&str]| {
        let node = json!({"status": {"volumesInUse": volumes}});
        bed.volumes_in_use.confirm(&serde_json::from_value(node).unwrap());
    };
    say(&["kubernetes.io/csi/disk.example.com^other"]);
    assert_eq!(waiting.as_mut().now_or_never(), None);
    say(&["kubernetes.io/csi/disk.example.com^v"]);
    assert_eq!(waiting.now_or_never(), Some(()));
}

#[tokio::test(start_paused = true)]
async fn a_volume_is_used_once_node_and_attachment_say_that_it_is_attached() {
    let bed = Bed::new(None);
    let v = volume("v");
    bed.put(&v, &json!({"attached": true, "attachmentMetadata": {"device": "/dev/sdb"}}));
    let begin = Instant::now();
    let attach = async {
        sleep(Duration::from_secs(60)).await;
        bed.attach(&[&volume("other")]);
        sleep(Duration::from_secs(1)).await;
        assert!(bed.api.requests().is_empty(), "nothing is polled");
        bed.attach(&[&volume("other"), &v]);
    };
    let (metadata, ()) = tokio::join!(bed.attachments.attached(&v), attach);
    assert_eq!(metadata.unwrap()["device"], "/dev/sdb");
    assert_eq!(begin.elapsed().as_secs(), 61, "at once");
    // A driver that says nothing of it.
    bed.put(&v, &json!({"attached": true}));
    assert_eq!(bed.attachments.attached(&v).await, Ok(BTreeMap::new()));
}

#[tokio::test(start_paused = true)]
async fn each_failure_has_upstreams_words() {
    let bed = Bed::new(None);
    let v = volume("v");
    let name = v.attachment_name("node1");
    assert_eq!(bed.attachments.attached(&v).await, Err(AttachError::NotInNodeStatus));
    bed.put(&v, &json!({"attached": false, "attachError": {"message": "no such disk"}}));
    let failed = |text: &str| Err(AttachError::Failed(text.to_owned()));
    assert_eq!(bed.attachments.attached(&v).await, failed("no such disk"), "the Node does not have it");
    bed.attach(&[&v]);
    assert_eq!(bed.attachments.attached(&v).await, failed("no such disk"));
    bed.put(&v, &json!({"attached": false}));
    let text = format!("volume v is not attached for volume attachment {name}");
    assert_eq!(bed.attachments.attached(&v).await, failed(&text));
    bed.api.delete(&format!("/apis/storage.k8s.io/v1/volumeattachments/{name}"), None);
    let text = format!(
        "volume v has GET error for volume attachment {name}: volumeattachments \"{name}\" not found"
    );
    assert_eq!(bed.attachments.attached(&v).await, failed(&text));
}

#[tokio::test(start_paused = true)]
async fn a_read_is_repeated_with_back_off_until_the_deadline() {
    let bed = Bed::new(None);
    let v = volume("v");
    bed.put(&v, &json!({"attached": true}));
    bed.attach(&[&v]);
    bed.api.fail(ApiRule { times: 4, ..ApiRule::always("GET", "/volumeattachments", ApiFault::Reset) });
    assert_eq!(bed.attachments.attached(&v).await, Ok(BTreeMap::new()));
    assert_eq!(bed.api.requests().len(), 5);
    bed.api.fail(ApiRule::always("GET", "/volumeattachments", ApiFault::Reset));
    let begin = Instant::now();
    let Err(AttachError::Failed(text)) = bed.attachments.attached(&v).await else { panic!() };
    assert!(text.starts_with("volume v has GET error for volume attachment csi-"), "{text}");
    assert!((100..124).contains(&begin.elapsed().as_secs()), "{:?}", begin.elapsed());
    let tries = bed.api.requests().len() - 5;
    assert!((10..25).contains(&tries), "{tries}");
}

#[tokio::test(start_paused = true)]
async fn a_full_driver_is_asked_for_its_limit_and_the_pod_cannot_run() {
    let full = json!({"attached": false, "attachError": {"message": "full", "errorCode": 8}});
    let v = volume("v");
    for (period, expected, asked) in [
        (Some(60), AttachError::Exhausted(v.unique_name()), &[DRIVER][..]),
        (None, AttachError::Failed("full".to_owned()), &[]),
    ] {
        let bed = Bed::new(period);
        bed.put(&v, &full);
        let begin = Instant::now();
        assert_eq!(bed.attachments.attached(&v).await, Err(expected));
        assert_eq!(begin.elapsed().as_secs(), ATTACH_TIMEOUT.as_secs(), "it may still be attached");
        assert_eq!(*bed.refreshed.lock(), asked);
    }
}
