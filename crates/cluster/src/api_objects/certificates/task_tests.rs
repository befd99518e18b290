//! Certificates with a fake API server, whose signer is the test.

use std::sync::Arc;
use std::time::Duration;

use hostlet_base::{PodEvent, PodRef, WallClock};
use hostlet_net::tls::CertificateInfo;
use hostlet_net::tls::fake::FakeAuthority;
use hostlet_pod::ContainerRef;
use hostlet_pod::objects::{CertificateRef, CertificateState, ObjectSource};
use hostlet_telemetry::Metrics;
use jiff::Timestamp;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::CertificateDeps;
use crate::api::fake::{ApiFault, ApiRule, FakeApi};
use crate::api_objects::{ApiObjects, OfflineObjects, ProjectionDeps};

/// Longer than any back-off, deadline and idle timeout together.
const PATIENCE: Duration = Duration::from_secs(900);
const HOUR: Duration = Duration::from_secs(3600);

struct Room {
    api: FakeApi,
    clock: WallClock,
    objects: ApiObjects,
    events: Arc<Mutex<Vec<String>>>,
    authority: FakeAuthority,
    _running: DropGuard,
}

fn start() -> Room {
    let clock = WallClock::of_tokio("2026-11-21T07:00:00Z".parse().unwrap());
    let api = FakeApi::new(clock.clone());
    api.put("/api/v1/namespaces/ns/serviceaccounts/sa", &json!({"metadata": {"name": "sa"}}));
    let node: Value = api.put("/api/v1/nodes/node1", &json!({"metadata": {"name": "node1"}}));
    let node = serde_json::from_value(node).unwrap();
    let events = Arc::new(Mutex::new(Vec::new()));
    let recorded = events.clone();
    let record = move |pod: &PodRef, _: Option<&ContainerRef>, event: &PodEvent| {
        recorded.lock().push(format!("{pod} {event}"));
    };
    let deps = CertificateDeps {
        node_name: "node1".to_owned(),
        node: watch::channel(Some(Arc::new(node))).1,
        events: Arc::new(record),
        clock: clock.clone(),
    };
    let projections = ProjectionDeps { certificates: Some(deps), ..ProjectionDeps::default() };
    let (task, objects) = ApiObjects::new(api.client(), OfflineObjects::default(), projections);
    let cancel = CancellationToken::new();
    #[expect(clippy::disallowed_methods, reason = "a task of a test")]
    tokio::spawn(task.run(cancel.clone()));
    Room { api, clock, objects, events, authority: FakeAuthority::new(), _running: cancel.drop_guard() }
}

fn certificate() -> CertificateRef {
    CertificateRef {
        pod: PodRef::new("ns", "web", "u1"),
        volume: "tls".to_owned(),
        source: 0,
        service_account: "sa".to_owned(),
        signer: "example.com/s".to_owned(),
        key_kind: "ED25519".to_owned(),
        max_expiration_seconds: Some(7200),
        annotations: [("example.com/a".to_owned(), "b".to_owned())].into(),
    }
}

const REQUESTS: &str = "/apis/certificates.k8s.io/v1/podcertificaterequests";

fn path(request: &Value) -> String {
    let name = request["metadata"]["name"].as_str().unwrap();
    format!("/apis/certificates.k8s.io/v1/namespaces/ns/podcertificaterequests/{name}")
}

fn time(at: Timestamp) -> String {
    at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

impl Room {
    /// Waits for the request with this number.
    async fn request(&self, number: usize) -> Value {
        let wait = async {
            loop {
                let requests: Vec<Value> = self.api.list(REQUESTS);
                if let Some(request) = requests.get(number) {
                    return request.clone();
                }
                sleep(Duration::from_millis(250)).await;
            }
        };
        timeout(2 * HOUR, wait).await.expect("a request")
    }

    fn decide(&self, request: &Value, status: Value) {
        let mut decided = request.clone();
        decided["status"] = status;
        self.api.put(&path(request), &decided);
    }

    /// Issues a certificate that is to be renewed after half of its life.
    fn issue(&self, request: &Value, life: Duration) -> String {
        let stub = request["spec"]["stubPKCS10Request"].as_str().unwrap();
        let pem = format!("-----BEGIN CERTIFICATE REQUEST-----\n{stub}\n-----END CERTIFICATE REQUEST-----\n");
        let now = self.clock.now();
        let chain = self.authority.issue(&pem, now, life).unwrap();
        let condition = json!({"type": "Issued", "status": "True", "reason": "Test", "message": "",
            "lastTransitionTime": time(now)});
        self.decide(
            request,
            json!({"conditions": [condition], "certificateChain": format!("noise\n{chain}"),
            "notBefore": time(now), "beginRefreshAt": time(now + life / 2), "notAfter": time(now + life)}),
        );
        chain
    }

    fn condition(&self, request: &Value, kind: &str) {
        let condition = json!({"type": kind, "status": "True", "reason": "No", "message": "not you",
            "lastTransitionTime": time(self.clock.now())});
        self.decide(request, json!({"conditions": [condition]}));
    }

    fn metric(&self) -> String {
        let metrics = Metrics::default();
        self.objects.register(&metrics);
        let text = metrics.encode();
        let line = text.lines().find(|line| line.starts_with("kubelet_podcertificate_states{"));
        line.unwrap_or_default().to_owned()
    }
}

/// Waits for a state.
async fn until(
    known: &mut watch::Receiver<CertificateState>,
    expected: impl Fn(&CertificateState) -> bool,
) -> CertificateState {
    timeout(PATIENCE, known.wait_for(|state| expected(state))).await.expect("a state").unwrap().clone()
}

fn chain(state: &CertificateState) -> &str {
    match state {
        CertificateState::Issued(credential) => &credential.chain,
        CertificateState::Pending | CertificateState::Failed(_) => "",
    }
}

fn error(state: &CertificateState) -> String {
    match state {
        CertificateState::Failed(error) => error.to_string(),
        CertificateState::Pending | CertificateState::Issued(_) => String::new(),
    }
}

#[tokio::test(start_paused = true)]
async fn a_certificate_is_requested_issued_and_renewed_with_another_key_at_the_signers_time() {
    let room = start();
    let mut known = room.objects.watch_certificate(&certificate());
    let first = room.request(0).await;
    let spec = &first["spec"];
    let node: Value = room.api.get("/api/v1/nodes/node1").unwrap();
    let account: Value = room.api.get("/api/v1/namespaces/ns/serviceaccounts/sa").unwrap();
    assert_eq!(spec["nodeUID"], node["metadata"]["uid"]);
    assert_eq!(spec["serviceAccountUID"], account["metadata"]["uid"]);
    let text = |field: &str| spec[field].as_str().unwrap().to_owned();
    let texts = ["signerName", "podName", "podUID", "serviceAccountName", "nodeName"].map(text);
    assert_eq!(texts, ["example.com/s", "web", "u1", "sa", "node1"]);
    assert_eq!(spec["maxExpirationSeconds"], 7200);
    assert_eq!(spec["unverifiedUserAnnotations"], json!({"example.com/a": "b"}));
    assert_eq!(first["metadata"]["generateName"], "req-");
    let owner = json!([{"apiVersion": "v1", "kind": "Pod", "name": "web", "uid": "u1"}]);
    assert_eq!(first["metadata"]["ownerReferences"], owner);
    assert!(room.metric().ends_with("state=\"not_yet_issued\"} 1"), "{}", room.metric());

    let issued = room.issue(&first, 2 * HOUR);
    let state = until(&mut known, |state| chain(state) == issued).await;
    let CertificateState::Issued(credential) = state else { panic!("it is issued") };
    assert!(credential.key.starts_with("-----BEGIN PRIVATE KEY-----\n"));
    assert!(CertificateInfo::from_pem(credential.chain.as_bytes()).is_ok());
    assert!(room.metric().ends_with("state=\"fresh\"} 1"), "{}", room.metric());

    // Setting the clock renews nothing.
    room.clock.set(10 * 365 * 86_400);
    let began = Instant::now();
    let second = room.request(1).await;
    let waited = began.elapsed();
    assert!(
        waited >= HOUR - Duration::from_secs(2) && waited < HOUR + Duration::from_secs(310),
        "{waited:?}"
    );
    assert_ne!(second["spec"]["stubPKCS10Request"], first["spec"]["stubPKCS10Request"]);
    assert_eq!(chain(&known.borrow()), issued, "until there is another one");
    let renewed = room.issue(&second, 2 * HOUR);
    until(&mut known, |state| chain(state) == renewed).await;
    assert_eq!(*room.events.lock(), [""; 0]);

    drop(known);
    sleep(3 * HOUR).await;
    assert_eq!((room.api.list::<Value>(REQUESTS).len(), room.metric()), (2, String::new()));
}

#[tokio::test(start_paused = true)]
async fn a_signer_that_does_not_decide_is_named_and_an_old_certificate_stays_while_it_expires() {
    let room = start();
    let mut known = room.objects.watch_certificate(&certificate());
    let first = room.request(0).await;
    let name = first["metadata"]["name"].as_str().unwrap();
    let waits = format!(
        "credential bundle is not issued yet: PodCertificateRequest ns/{name} waits for its signer example.com/s"
    );
    until(&mut known, |state| error(state) == waits).await;
    let issued = room.issue(&first, 2 * HOUR);
    until(&mut known, |state| chain(state) == issued).await;
    room.request(1).await;
    sleep(2 * HOUR).await;
    assert_eq!(chain(&known.borrow()), issued);
    let events = [
        "ns/web CertificateOverdueForRefresh: PodCertificate refresh overdue",
        "ns/web CertificateExpired: PodCertificate expired",
    ];
    assert_eq!(*room.events.lock(), events);
    assert!(room.metric().ends_with("state=\"expired\"} 1"), "{}", room.metric());
}

#[tokio::test(start_paused = true)]
async fn a_denied_or_failed_request_is_reported_and_not_repeated() {
    for (kind, verb, word) in [("Denied", "was denied", "denied"), ("Failed", "failed", "failed")] {
        let room = start();
        let mut known = room.objects.watch_certificate(&certificate());
        let request = room.request(0).await;
        room.condition(&request, kind);
        let expected =
            format!("PodCertificateRequest was permanently {word}: reason=\"No\" message=\"not you\"");
        until(&mut known, |state| error(state) == expected).await;
        sleep(10 * HOUR).await;
        assert_eq!(room.api.list::<Value>(REQUESTS).len(), 1);
        let name = request["metadata"]["name"].as_str().unwrap();
        let event = format!(
            "ns/web {kind}: PodCertificateRequest ns/{name} {verb}, reason=\"No\", message=\"not you\""
        );
        assert_eq!(*room.events.lock(), [event]);
        assert!(room.metric().ends_with(&format!("state=\"{word}\"}} 1")), "{}", room.metric());
    }
}

#[tokio::test(start_paused = true)]
async fn a_deleted_request_is_repeated_with_another_key() {
    let room = start();
    let mut known = room.objects.watch_certificate(&certificate());
    let first = room.request(0).await;
    sleep(HOUR).await;
    room.api.delete(&path(&first), None);
    let second = room.request(0).await;
    assert_ne!(second["spec"]["stubPKCS10Request"], first["spec"]["stubPKCS10Request"]);
    let issued = room.issue(&second, 2 * HOUR);
    until(&mut known, |state| chain(state) == issued).await;
}

#[tokio::test(start_paused = true)]
async fn failures_say_why_there_is_no_certificate_and_are_survived() {
    let room = start();
    room.api.delete("/api/v1/namespaces/ns/serviceaccounts/sa", None);
    let mut known = room.objects.watch_certificate(&certificate());
    let failed = async |known: &mut watch::Receiver<CertificateState>, expected: &str| {
        let found = timeout(PATIENCE, known.wait_for(|state| error(state).contains(expected))).await.is_ok();
        assert!(found, "{expected}: {:?}", known.borrow());
    };
    failed(&mut known, "credential bundle is not issued yet: while fetching service account: ").await;
    room.api.put("/api/v1/namespaces/ns/serviceaccounts/sa", &json!({"metadata": {"name": "sa"}}));
    let rejected = ApiFault::Reject { code: 403, reason: "Forbidden", retry_after: 0 };
    room.api.fail(ApiRule::always("POST", "/podcertificaterequests", rejected));
    failed(&mut known, "while creating PodCertificateRequest: rejected by the script").await;
    room.api.heal();
    room.api.fail(ApiRule::once("WATCH", "/podcertificaterequests", ApiFault::Reset));
    room.api.fail(ApiRule::once("WATCH", "/podcertificaterequests", ApiFault::CutWatch(1)));
    let request = room.request(0).await;
    sleep(HOUR).await;
    let issued = room.issue(&request, 2 * HOUR);
    until(&mut known, |state| chain(state) == issued).await;
}

#[tokio::test(start_paused = true)]
async fn an_older_server_is_asked_in_its_version_and_one_without_the_api_is_named() {
    let room = start();
    room.api.serve_certificates(&[]);
    let mut known = room.objects.watch_certificate(&certificate());
    until(&mut known, |state| {
        error(state).contains("the API server has no PodCertificateRequests: they need")
    })
    .await;
    room.api.serve_certificates(&["v1beta1"]);
    let wait = async {
        while room.api.requests_of("POST", "/v1beta1/namespaces/ns/podcertificaterequests").is_empty() {
            sleep(Duration::from_secs(1)).await;
        }
    };
    timeout(PATIENCE, wait).await.expect("a request in the older version");
    let posted = &room.api.requests_of("POST", "/v1beta1/")[0].body;
    assert_eq!(posted["apiVersion"], "certificates.k8s.io/v1beta1");
}

#[tokio::test(start_paused = true)]
async fn a_key_that_nobody_knows_is_an_error_and_a_gate_that_is_off_is_named() {
    let room = start();
    let other = CertificateRef { key_kind: "RSA512".to_owned(), ..certificate() };
    let mut known = room.objects.watch_certificate(&other);
    until(&mut known, |state| error(state).contains("unknown key type \"RSA512\"")).await;
    let (_task, objects) =
        ApiObjects::new(room.api.client(), OfflineObjects::default(), ProjectionDeps::default());
    let off = objects.watch_certificate(&certificate());
    assert!(error(&off.borrow()).contains("the feature gate PodCertificateRequest is off"));
}
