//! Volumes that grow, with a fake API server in paused time: what their claims and events say.

use std::sync::Arc;

use hostlet_base::{PodRef, QuietPeriod, WallClock};
use hostlet_csi::{CallError, ClaimOfPod, Expansions, GrowError, Growth, Look, Moment, NodeSize};
use k8s_openapi::api::core::v1::{Event, PersistentVolume, PersistentVolumeClaim};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio::time::{Duration, sleep};
use tokio_util::sync::CancellationToken;
use tonic::Code;

use super::{ApiExpansions, ExpansionDeps};
use crate::api::events::recorder;
use crate::api::fake::{ApiFault, ApiRule, FakeApi};

const CLAIM: &str = "/api/v1/namespaces/ns/persistentvolumeclaims/data";
const VOLUME: &str = "/api/v1/persistentvolumes/pv-1";

struct Bed {
    api: FakeApi,
    pod_events: Arc<Mutex<Vec<String>>>,
    expansions: ApiExpansions,
    _events: JoinSet<()>,
}

impl Bed {
    /// A claim with this status, whose PersistentVolume has this size.
    fn new(status: &Value, size: &str) -> Self {
        let clock = WallClock::system();
        let api = FakeApi::new(clock.clone());
        let spec = json!({
            "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "20Gi"}}, "volumeName": "pv-1",
        });
        let claim = json!({"metadata": {"namespace": "ns", "name": "data"}, "spec": spec, "status": status});
        let claim: PersistentVolumeClaim = api.put(CLAIM, &serde_json::from_value(claim).unwrap());
        let owner = json!({"namespace": "ns", "name": "data", "uid": claim.metadata.uid});
        let volume =
            json!({"metadata": {"name": "pv-1"}, "spec": {"capacity": {"storage": size}, "claimRef": owner}});
        api.put::<PersistentVolume>(VOLUME, &serde_json::from_value(volume).unwrap());
        let pod_events = Arc::new(Mutex::new(Vec::new()));
        let log = pod_events.clone();
        let (events, sink) = recorder(api.client(), "node1".to_owned(), clock.clone());
        let mut tasks = JoinSet::new();
        tasks.spawn(sink.run(QuietPeriod::default(), CancellationToken::new()));
        let expansions = ApiExpansions::new(ExpansionDeps {
            client: api.client(),
            node_name: "node1".to_owned(),
            pod_events: Arc::new(move |pod, _, event| log.lock().push(format!("{} {event}", pod.name))),
            recorder: events,
            clock,
        });
        Self { api, pod_events, expansions, _events: tasks }
    }

    async fn look(&self, at: Moment) -> Result<Look, String> {
        let look = self.expansions.look(&of_pod(false), at, NodeSize::default()).await;
        look.map_err(|error| error.to_string())
    }

    /// What the driver is called with.
    async fn growth(&self, at: Moment) -> Growth {
        match self.look(at).await.unwrap() {
            Look::Grow(growth) => *growth,
            other @ Look::Unchanged(_) => panic!("{other:?}"),
        }
    }

    async fn grown(&self, at: Moment, growth: &Growth, result: Result<(), GrowError>) -> Result<(), String> {
        let grown = self.expansions.grown(&of_pod(false), at, growth, &result).await;
        grown.map_err(|error| error.to_string())
    }

    fn status(&self) -> Value {
        self.api.get::<Value>(CLAIM).unwrap()["status"].clone()
    }

    /// The claim's events, once they are written.
    async fn claim_events(&self) -> Vec<String> {
        sleep(Duration::from_secs(60)).await;
        let events = self.api.list::<Event>("/api/v1/namespaces/ns/events");
        let of_claim = |event: &Event| event.involved_object.kind.as_deref() == Some("PersistentVolumeClaim");
        let text = |event: Event| format!("{}: {}", event.reason.unwrap(), event.message.unwrap());
        events.into_iter().filter(of_claim).map(text).collect()
    }
}

fn of_pod(read_only: bool) -> ClaimOfPod {
    let (pod, name) = (PodRef::new("ns", "a", "uid-a"), "data".to_owned());
    ClaimOfPod { pod, name, volume: "pv-1".to_owned(), read_only }
}

fn pending() -> Value {
    json!({
        "phase": "Bound", "capacity": {"storage": "10Gi"}, "allocatedResources": {"storage": "20Gi"},
        "allocatedResourceStatuses": {"storage": "NodeResizePending"},
        "conditions": [
            {"type": "FileSystemResizePending", "status": "True"}, {"type": "ModifyVolumeError", "status": "True"},
        ],
    })
}

fn call_error(code: Code) -> CallError {
    CallError { call: "NodeExpandVolume", code, message: "no".to_owned() }
}

#[tokio::test(start_paused = true)]
async fn a_claim_says_that_its_volume_grows_and_has_grown() {
    let bed = Bed::new(&pending(), "20Gi");
    let growth = bed.growth(Moment::Mounting).await;
    assert_eq!(growth.size, 20 << 30);
    assert_eq!(bed.status()["allocatedResourceStatuses"]["storage"], "NodeResizeInProgress");
    bed.grown(Moment::Mounting, &growth, Ok(())).await.unwrap();
    let status = bed.status();
    assert_eq!(status["capacity"]["storage"], "20Gi");
    assert_eq!(status["allocatedResources"]["storage"], "20Gi");
    assert!(
        status["allocatedResourceStatuses"].as_object().is_none_or(serde_json::Map::is_empty),
        "{status}"
    );
    assert_eq!(status["conditions"], json!([{"type": "ModifyVolumeError", "status": "True"}]));
    let text = "FileSystemResizeSuccessful: MountVolume.NodeExpandVolume succeeded for volume \"pv-1\" node1";
    assert_eq!(*bed.pod_events.lock(), [format!("a {text}")]);
    assert_eq!(bed.claim_events().await, [text]);
    assert_eq!(bed.look(Moment::InUse).await, Ok(Look::Unchanged(Some(20 << 30))));
    let patches = bed.api.requests_of("PATCH", CLAIM);
    assert!(patches.iter().all(|patch| patch.path.ends_with("/status")), "as the node is permitted");
}

#[tokio::test(start_paused = true)]
async fn a_claim_that_changes_meanwhile_is_read_again() {
    let bed = Bed::new(&pending(), "20Gi");
    let growth = bed.growth(Moment::InUse).await;
    let mut claim: PersistentVolumeClaim = bed.api.get(CLAIM).unwrap();
    claim.metadata.labels = Some([("a".to_owned(), "b".to_owned())].into());
    bed.api.put(CLAIM, &claim);
    let error = bed.grown(Moment::InUse, &growth, Ok(())).await.unwrap_err();
    assert!(error.starts_with("patchPVCStatus failed to patch PVC \"data\": "), "{error}");
    let growth = bed.growth(Moment::InUse).await;
    bed.grown(Moment::InUse, &growth, Ok(())).await.unwrap();
    assert_eq!(bed.status()["capacity"]["storage"], "20Gi");
}

#[tokio::test(start_paused = true)]
async fn a_failure_is_a_condition_of_the_claim_and_what_cannot_be_ends() {
    let bed = Bed::new(&pending(), "20Gi");
    let growth = bed.growth(Moment::InUse).await;
    let error = GrowError::Call(call_error(Code::Internal));
    bed.grown(Moment::InUse, &growth, Err(error)).await.unwrap();
    let status = bed.status();
    assert_eq!(status["allocatedResourceStatuses"]["storage"], "NodeResizeInProgress", "it is tried again");
    let of_node = |status: &Value| {
        let all = status["conditions"].as_array().unwrap().clone();
        all.into_iter().find(|condition| condition["type"] == "NodeResizeError").unwrap()
    };
    let text = "Expander.NodeExpand failed to expand the volume : rpc error: code = Internal desc = no";
    assert_eq!(of_node(&status)["message"], format!("failed to expand pvc with {text}"));
    let event = format!(
        "a VolumeResizeFailed: NodeExpandVolume.NodeExpandVolume failed for volume \"pv-1\" : {text}"
    );
    assert_eq!(*bed.pod_events.lock(), [event]);

    let growth = bed.growth(Moment::Mounting).await;
    let error = GrowError::Infeasible(call_error(Code::OutOfRange));
    bed.grown(Moment::Mounting, &growth, Err(error)).await.unwrap();
    assert_eq!(bed.status()["allocatedResourceStatuses"]["storage"], "NodeResizeInfeasible");
    assert_eq!(bed.pod_events.lock().len(), 1, "a pod that does not start has an event of its volumes");
    assert_eq!(bed.look(Moment::InUse).await, Ok(Look::Unchanged(None)), "the driver is not called again");
    assert_eq!(of_node(&bed.status())["message"], of_node(&status)["message"], "as upstream, the first one");
}

#[tokio::test(start_paused = true)]
async fn an_expansion_that_nobody_asks_for_any_more_ends_with_a_failure() {
    let bed = Bed::new(&pending(), "20Gi");
    let mut claim: PersistentVolumeClaim = bed.api.get(CLAIM).unwrap();
    let spec = json!({"resources": {"requests": {"storage": "15Gi"}}});
    claim.spec = Some(serde_json::from_value(spec).unwrap());
    bed.api.put(CLAIM, &claim);
    let size = NodeSize { known: None, has_failed: true };
    let look = bed.expansions.look(&of_pod(false), Moment::InUse, size).await.unwrap();
    let Look::Grow(growth) = look else { panic!("{look:?}") };
    let error = GrowError::Call(call_error(Code::Internal));
    bed.grown(Moment::InUse, &growth, Err(error)).await.unwrap();
    assert_eq!(bed.status()["allocatedResourceStatuses"]["storage"], "NodeResizeInfeasible");
}

#[tokio::test(start_paused = true)]
async fn an_older_resizer_sees_the_size() {
    let status = json!({
        "capacity": {"storage": "10Gi"}, "conditions": [{"type": "FileSystemResizePending", "status": "True"}],
    });
    let bed = Bed::new(&status, "20Gi");
    let growth = bed.growth(Moment::Mounting).await;
    assert_eq!(bed.status(), status);
    bed.grown(Moment::Mounting, &growth, Err(GrowError::Call(call_error(Code::Internal)))).await.unwrap();
    assert_eq!(bed.status(), status);
    bed.grown(Moment::Mounting, &growth, Ok(())).await.unwrap();
    assert_eq!(bed.status()["capacity"]["storage"], "20Gi");
}

#[tokio::test(start_paused = true)]
async fn a_volume_that_is_only_read_does_not_grow_and_events_say_so() {
    let bed = Bed::new(&pending(), "20Gi");
    let look = bed.expansions.look(&of_pod(true), Moment::Mounting, NodeSize::default()).await;
    assert_eq!(look, Ok(Look::Unchanged(None)));
    let text = "FileSystemResizeFailed: MountVolume.NodeExpandVolume failed for volume \"pv-1\" requested read-only file system";
    assert_eq!(*bed.pod_events.lock(), [format!("a {text}")]);
    assert_eq!(bed.claim_events().await, [text]);
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_read_says_which_and_another_claim_says_nothing() {
    let bed = Bed::new(&pending(), "20Gi");
    let reject = ApiFault::Reject { code: 403, reason: "Forbidden", retry_after: 0 };
    bed.api.fail(ApiRule::once("GET", "/persistentvolumes", reject.clone()));
    let error = bed.look(Moment::InUse).await.unwrap_err();
    assert!(error.starts_with("mountVolume.NodeExpandVolume get PV failed : "), "{error}");
    bed.api.fail(ApiRule::once("GET", "/persistentvolumeclaims", ApiFault::Hang));
    let error = bed.look(Moment::InUse).await.unwrap_err();
    assert!(error.starts_with("mountVolume.NodeExpandVolume get PVC failed : "), "{error}");
    bed.api.fail(ApiRule::once("PATCH", "/persistentvolumeclaims", reject));
    bed.look(Moment::InUse).await.unwrap_err();
    let volume: PersistentVolumeClaim = bed.api.get(CLAIM).unwrap();
    bed.api.delete(CLAIM, None);
    let again = json!({"metadata": {"namespace": "ns", "name": "data"}, "spec": volume.spec, "status": volume.status});
    bed.api.put::<PersistentVolumeClaim>(CLAIM, &serde_json::from_value(again).unwrap());
    assert_eq!(bed.look(Moment::InUse).await, Ok(Look::Unchanged(None)));
}
