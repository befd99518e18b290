//! The source with a faulty API server.

use futures::FutureExt;
use hostlet_base::WallClock;
use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use proptest::prelude::*;
use serde_json::{Value, json};
use tokio::time::{sleep, timeout};
use tokio_util::sync::DropGuard;

use super::*;
use crate::api::fake::{ApiFault, ApiRule, FakeApi};

/// Longer than any back-off, deadline and idle timeout together.
const PATIENCE: Duration = Duration::from_secs(900);
const SOON: Duration = Duration::from_millis(20);

struct Room {
    api: FakeApi,
    objects: ApiObjects,
    _running: DropGuard,
}

fn start() -> Room {
    let api = FakeApi::new(WallClock::of_tokio("2026-11-21T07:00:00Z".parse().unwrap()));
    let (task, objects) = ApiObjects::new(api.client(), OfflineObjects::default(), ProjectionDeps::default());
    let cancel = CancellationToken::new();
    #[expect(clippy::disallowed_methods, reason = "a task of a test")]
    tokio::spawn(task.run(cancel.clone()));
    Room { api, objects, _running: cancel.drop_guard() }
}

fn path(name: &str) -> String {
    format!("/api/v1/namespaces/ns/configmaps/{name}")
}

impl Room {
    fn put(&self, name: &str, value: &str) {
        self.put_as(name, json!({"data": {"k": value}}));
    }

    fn put_as(&self, name: &str, mut object: Value) {
        object["metadata"] = json!({"name": name, "managedFields": [{"manager": "kubectl"}]});
        self.api.put(&path(name), &serde_json::from_value::<ConfigMap>(object).unwrap());
    }

    fn watch(&self, name: &str) -> watch::Receiver<ObjectState> {
        self.objects.watch(&ObjectRef::config_map(name, "ns"))
    }

    fn watched(&self) -> usize {
        self.objects.shared.with(|inner| inner.objects.len())
    }
}

fn found(value: &str) -> ObjectState {
    let text = [("k".to_owned(), value.to_owned())].into();
    ObjectState::Found(Arc::new(Object { text, ..Object::default() }))
}

fn absent(name: &str) -> ObjectState {
    ObjectState::Failed(ObjectError::NotFound(format!("configmap {name:?} not found")))
}

fn methods(api: &FakeApi) -> Vec<String> {
    api.requests().into_iter().map(|request| request.method).collect()
}

/// Waits until this value is published.
async fn until(known: &mut watch::Receiver<ObjectState>, expected: &ObjectState, within: Duration) {
    let waited = timeout(within, known.wait_for(|known| known == expected)).await.is_ok();
    assert!(waited, "expected {expected:?}, known is {:?}", known.borrow());
}

#[tokio::test(start_paused = true)]
async fn an_object_is_followed_from_creation_to_deletion() {
    let room = start();
    room.put("other", "x");
    let mut known = room.watch("cm");
    until(&mut known, &absent("cm"), SOON).await;
    for value in ["one", "two"] {
        room.put("cm", value);
        until(&mut known, &found(value), SOON).await;
    }
    room.api.delete(&path("cm"), None);
    until(&mut known, &absent("cm"), SOON).await;
    // A change of anything but the data wakes no receiver.
    room.put("cm", "two");
    until(&mut known, &found("two"), SOON).await;
    room.put_as("cm", json!({"data": {"k": "two"}, "immutable": false}));
    sleep(SOON).await;
    assert!(!known.has_changed().unwrap());
}

#[tokio::test(start_paused = true)]
async fn receivers_share_one_watch_and_the_last_one_stops_it() {
    let room = start();
    room.put("cm", "one");
    let mut first = room.watch("cm");
    until(&mut first, &found("one"), SOON).await;
    let mut second = room.watch("cm");
    assert_eq!(*second.borrow_and_update(), found("one"));
    sleep(SOON).await;
    assert_eq!(methods(&room.api), ["WATCH"]);
    drop(first);
    room.put("cm", "two");
    until(&mut second, &found("two"), SOON).await;
    drop(second);
    sleep(SOON).await;
    assert_eq!(room.watched(), 0);
    sleep(Duration::from_secs(3600)).await;
    assert_eq!(room.api.requests().len(), 1);
    // Dropped and requested again at the same moment.
    for value in ["three", "four"] {
        room.put("cm", value);
        until(&mut room.watch("cm"), &found(value), SOON).await;
    }
}

#[tokio::test(start_paused = true)]
async fn an_immutable_object_is_published_and_no_longer_watched() {
    let room = start();
    room.put_as("cm", json!({"data": {"k": "v"}, "immutable": true}));
    let mut first = room.watch("cm");
    until(&mut first, &found("v"), SOON).await;
    assert_eq!(*room.watch("cm").borrow(), found("v"));
    sleep(Duration::from_secs(3600)).await;
    assert_eq!(room.api.requests().len(), 1);
    // An object that becomes immutable while watched.
    room.put("later", "one");
    let mut later = room.watch("later");
    until(&mut later, &found("one"), SOON).await;
    room.put_as("later", json!({"data": {"k": "two"}, "immutable": true}));
    until(&mut later, &found("two"), SOON).await;
    let requests = room.api.requests().len();
    sleep(Duration::from_secs(3600)).await;
    assert_eq!(room.api.requests().len(), requests);
}

#[tokio::test(start_paused = true)]
async fn a_brief_403_is_hidden_and_a_lasting_one_is_published_with_the_servers_message() {
    let room = start();
    room.put("cm", "one");
    let refused = || ApiFault::Reject { code: 403, reason: "Forbidden", retry_after: 0 };
    room.api.fail(ApiRule { times: 3, ..ApiRule::always("WATCH", "configmaps", refused()) });
    let mut known = room.watch("cm");
    timeout(Duration::from_millis(500), known.changed()).await.unwrap().unwrap();
    assert_eq!(*known.borrow(), found("one"));

    room.api.fail(ApiRule::always("", "configmaps", refused()));
    let mut other = room.watch("other");
    let words = ObjectState::Failed(ObjectError::Forbidden("rejected by the script".into()));
    until(&mut other, &words, Duration::from_secs(3)).await;
    // Known data remains.
    sleep(PATIENCE).await;
    assert_eq!(*known.borrow(), found("one"));
    room.api.heal();
    until(&mut other, &absent("other"), Duration::from_secs(31)).await;
}

#[tokio::test(start_paused = true)]
async fn a_hanging_request_is_retried_and_retry_after_is_honored() {
    let room = start();
    room.put("cm", "one");
    room.api.fail(ApiRule::once("WATCH", "configmaps", ApiFault::Hang));
    let mut known = room.watch("cm");
    let changed = timeout(Duration::from_secs(31), known.changed()).await;
    assert!(changed.is_ok(), "it hangs");
    let text = "cannot read configmap \"cm\": the API server did not answer within 30 s";
    assert_eq!(*known.borrow_and_update(), ObjectState::Failed(ObjectError::Unavailable(text.into())));
    until(&mut known, &found("one"), Duration::from_secs(1)).await;

    let busy = ApiFault::Reject { code: 429, reason: "TooManyRequests", retry_after: 7 };
    room.api.fail(ApiRule::once("WATCH", "configmaps", busy));
    let before = Instant::now();
    until(&mut room.watch("other"), &absent("other"), Duration::from_secs(11)).await;
    assert!(before.elapsed() >= Duration::from_secs(7), "{:?}", before.elapsed());
}

#[tokio::test(start_paused = true)]
async fn an_expired_resource_version_leads_to_a_new_list() {
    let room = start();
    let expired = ApiFault::Reject { code: 410, reason: "Expired", retry_after: 0 };
    room.api.fail(ApiRule::once("WATCH", "configmaps", expired));
    let known = room.watch("cm");
    sleep(Duration::from_secs(1)).await;
    assert_eq!(methods(&room.api), ["WATCH", "WATCH"]);
    drop(known);
}

#[tokio::test(start_paused = true)]
async fn a_token_request_is_bound_to_the_pod_and_has_a_deadline() {
    let room = start();
    let request = TokenRequest {
        namespace: "ns".into(),
        service_account: "default".into(),
        service_account_uid: Some("a1".into()),
        audiences: vec!["vault".into()],
        expiration_seconds: 3607,
        pod_name: "web".into(),
        pod_uid: "u1".into(),
    };
    let token = room.objects.request_token(&request).await.unwrap();
    assert_eq!(token.value, "token-1");
    let life = token.expires.duration_since(token.issued).as_secs();
    assert_eq!((life, token.issued.to_string().as_str()), (3607, "2026-11-21T07:00:00Z"));
    let body = room.api.requests_of("POST", "/namespaces/ns/serviceaccounts/default/token").remove(0).body;
    let bound = json!({"apiVersion": "v1", "kind": "Pod", "name": "web", "uid": "u1"});
    let spec = json!({"audiences": ["vault"], "expirationSeconds": 3607, "boundObjectRef": bound});
    assert_eq!((&body["spec"], &body["metadata"]), (&spec, &json!({"uid": "a1"})));

    let gone = ApiFault::Reject { code: 404, reason: "NotFound", retry_after: 0 };
    for (fault, error) in [
        (gone, ObjectError::NotFound("rejected by the script".into())),
        (ApiFault::Hang, ObjectError::Unavailable("the API server did not answer within 10 s".into())),
    ] {
        room.api.fail(ApiRule::once("POST", "/token", fault));
        let answer = timeout(Duration::from_secs(11), room.objects.request_token(&request)).await.unwrap();
        assert_eq!(answer.unwrap_err(), error);
    }
}

#[tokio::test(start_paused = true)]
async fn a_service_account_is_read() {
    let room = start();
    let missing = room.objects.service_account("ns", "builder").await.unwrap_err();
    assert!(matches!(missing, ObjectError::NotFound(_)), "{missing:?}");
    let account = json!({"metadata": {"name": "builder", "namespace": "ns", "annotations": {"a": "b"}}});
    let account: ServiceAccount = serde_json::from_value(account).unwrap();
    room.api.put("/api/v1/namespaces/ns/serviceaccounts/builder", &account);
    let found = room.objects.service_account("ns", "builder").await.unwrap();
    assert_eq!(found.annotations, [("a".to_owned(), "b".to_owned())].into());
}

/// Events of the server, the network and the receivers.
#[derive(Clone, Debug)]
enum Event {
    Put(usize, u8),
    Delete(usize),
    Fault(&'static str, ApiFault, u32),
    Compact,
    Bookmark,
    Listen(usize),
    Leave(usize),
    Wait(u64),
}

const NAMES: [&str; 2] = ["a", "b"];

fn fault() -> impl Strategy<Value = ApiFault> {
    let reject = |code, reason, retry_after| ApiFault::Reject { code, reason, retry_after };
    prop_oneof![
        Just(reject(403, "Forbidden", 0)),
        Just(reject(410, "Expired", 0)),
        Just(reject(429, "TooManyRequests", 2)),
        Just(reject(500, "InternalError", 0)),
        Just(ApiFault::Reset),
        Just(ApiFault::LostAnswer),
        Just(ApiFault::Hang),
        Just(ApiFault::Delay(Duration::from_secs(3))),
        (0..3usize).prop_map(ApiFault::CutWatch),
        (0..3usize).prop_map(ApiFault::HalfOpenWatch),
    ]
}

fn event() -> impl Strategy<Value = Event> {
    let which = 0..NAMES.len();
    prop_oneof![
        4 => (which.clone(), any::<u8>()).prop_map(|(which, value)| Event::Put(which, value)),
        1 => which.clone().prop_map(Event::Delete),
        4 => (prop_oneof![Just("GET"), Just("WATCH")], fault(), 1..4u32)
            .prop_map(|(method, fault, times)| Event::Fault(method, fault, times)),
        1 => Just(Event::Compact),
        1 => Just(Event::Bookmark),
        2 => which.clone().prop_map(Event::Listen),
        1 => which.prop_map(Event::Leave),
        4 => prop_oneof![0..5u64, 0..2_000u64, 0..400_000u64].prop_map(Event::Wait),
    ]
}

async fn history(events: Vec<Event>) {
    let room = start();
    let mut truth = NAMES.map(absent);
    let mut listeners = [Some(room.watch(NAMES[0])), None];
    for event in events {
        match event {
            Event::Put(which, value) => {
                room.put(NAMES[which], &value.to_string());
                truth[which] = found(&value.to_string());
            }
            Event::Delete(which) => {
                room.api.delete(&path(NAMES[which]), None);
                truth[which] = absent(NAMES[which]);
            }
            Event::Fault(method, fault, times) => {
                room.api.fail(ApiRule { times, ..ApiRule::once(method, "configmaps", fault) });
            }
            Event::Compact => room.api.compact(),
            Event::Bookmark => room.api.bookmark(),
            Event::Listen(which) => listeners[which] = Some(room.watch(NAMES[which])),
            Event::Leave(which) => listeners[which] = None,
            Event::Wait(millis) => sleep(Duration::from_millis(millis)).await,
        }
    }
    room.api.heal();
    sleep(PATIENCE).await;
    for ((listener, truth), name) in listeners.iter().zip(truth).zip(NAMES) {
        if let Some(known) = listener {
            assert_eq!(*known.borrow(), truth, "{name}");
        }
    }
    assert_eq!(room.watched(), listeners.iter().flatten().count(), "nothing is watched without a receiver");
    // From then on changes arrive immediately.
    for (which, listener) in listeners.iter_mut().enumerate() {
        if let Some(known) = listener {
            room.put(NAMES[which], "last");
            until(known, &found("last"), SOON).await;
            assert!(known.changed().now_or_never().is_none());
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn receivers_converge_to_the_latest_object(events in proptest::collection::vec(event(), 0..40)) {
        let executor =
            tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        executor.block_on(history(events));
    }
}

fn claim() -> ClaimRef {
    ClaimRef { namespace: "ns".to_owned(), name: "data".to_owned(), owner: None }
}

impl Room {
    /// Returns the claim's UID.
    fn put_claim(&self, phase: &str, volume: &str) -> String {
        let claim = json!({"metadata": {"name": "data", "namespace": "ns"},
            "spec": {"volumeName": volume}, "status": {"phase": phase}});
        let claim: PersistentVolumeClaim = serde_json::from_value(claim).unwrap();
        let claim = self.api.put("/api/v1/namespaces/ns/persistentvolumeclaims/data", &claim);
        claim.metadata.uid.unwrap()
    }

    fn put_volume(&self, claim_uid: &str) {
        let volume = json!({"metadata": {"name": "pv-1"},
            "spec": {"local": {"path": "/mnt"}, "claimRef": {"namespace": "ns", "name": "data", "uid": claim_uid}}});
        let volume: PersistentVolume = serde_json::from_value(volume).unwrap();
        self.api.put("/api/v1/persistentvolumes/pv-1", &volume);
    }
}

/// Waits for an error with this text.
async fn until_failed(known: &mut watch::Receiver<ClaimState>, text: &str) {
    let fits =
        |state: &ClaimState| matches!(state, ClaimState::Failed(error) if error.to_string().contains(text));
    let waited = timeout(PATIENCE, known.wait_for(fits)).await.is_ok();
    assert!(waited, "expected {text:?}, known is {:?}", known.borrow());
}

#[tokio::test(start_paused = true)]
async fn a_claim_is_read_until_it_is_bound_and_then_no_more() {
    let room = start();
    let mut known = room.objects.watch_claim(&claim());
    until_failed(
        &mut known,
        "failed to fetch PVC from API server: persistentvolumeclaims \"data\" not found",
    )
    .await;
    room.put_claim("Pending", "");
    until_failed(&mut known, "PVC is not bound").await;
    let uid = room.put_claim("Bound", "pv-1");
    until_failed(&mut known, "failed to fetch PV pv-1 from API server: ").await;
    room.put_volume("u0");
    until_failed(&mut known, "pv.Spec.ClaimRef.UID u0 does not point to claim.UID ").await;
    room.put_volume(&uid);
    let is_bound = |state: &ClaimState| matches!(state, ClaimState::Bound(_));
    timeout(PATIENCE, known.wait_for(is_bound)).await.unwrap().unwrap();
    let requests = room.api.requests().len();
    sleep(Duration::from_secs(3600)).await;
    assert_eq!(room.api.requests().len(), requests);
    assert!(room.api.requests_of("WATCH", "").is_empty(), "the Node authorizer permits none");
}

#[tokio::test(start_paused = true)]
async fn a_claim_without_receivers_is_not_read() {
    let room = start();
    let known = room.objects.watch_claim(&claim());
    sleep(Duration::from_secs(60)).await;
    let requests = room.api.requests().len();
    // With growing pauses of at most ten seconds.
    assert!((8..=14).contains(&requests), "{requests}");
    drop(known);
    sleep(SOON).await;
    let requests = room.api.requests().len();
    sleep(Duration::from_secs(3600)).await;
    assert_eq!(room.api.requests().len(), requests);
}
