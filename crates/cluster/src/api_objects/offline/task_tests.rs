//! Copies over starts of the daemon, with and without an API server.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use hostlet_base::WallClock;
use hostlet_net::tls::fake::FakeAuthority;
use hostlet_pod::objects::{
    ObjectError, ObjectRef, ObjectReferences, ObjectSource, ObjectState, Token, TokenRequest, TrustAnchors,
    TrustBundleRef, TrustBundleState, VolumeNeeds,
};
use hostlet_pod::{AdmittedPod, DesiredPods};
use hostlet_store::{KEY_CREDENTIAL, KeyPlace, Store, StoreWriter, Table};
use hostlet_telemetry::Metrics;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use serde_json::json;
use tempfile::TempDir;
use tokio::sync::watch;
use tokio::time::{sleep, timeout};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::{CopySubject, OfflineObjects, OfflineObjectsTask, OfflineUsers};
use crate::api::fake::{ApiFault, ApiRule, FakeApi};
use crate::api_objects::{ApiObjects, ProjectionDeps};

const PLAIN: &str = "correct horse battery staple";
const SOON: Duration = Duration::from_millis(20);
/// Longer than any back-off and deadline together.
const PATIENCE: Duration = Duration::from_secs(120);

/// What survives a start: the disk, the clock, and the API server.
struct Host {
    dir: TempDir,
    clock: WallClock,
    api: FakeApi,
    /// What the PersistentVolumes of pods need, which the volumes remember.
    volume_needs: watch::Sender<VolumeNeeds>,
}

/// A daemon.
struct Daemon {
    store: Store,
    writer: StoreWriter,
    offline: OfflineObjects,
    objects: ApiObjects,
    desired_pods: watch::Sender<DesiredPods>,
    _running: DropGuard,
}

fn projections() -> ProjectionDeps {
    ProjectionDeps { trust_bundles: true, ..ProjectionDeps::default() }
}

fn place(dir: &Path) -> KeyPlace {
    KeyPlace { credentials: Some(dir.join("credentials")), file: dir.join("hostlet/objects.key") }
}

impl Host {
    fn new() -> Self {
        let clock = WallClock::of_tokio("2026-11-21T07:00:00Z".parse().unwrap());
        let (dir, api) = (tempfile::tempdir().unwrap(), FakeApi::new(clock.clone()));
        Self { dir, api, clock, volume_needs: watch::Sender::default() }
    }

    fn store_path(&self) -> PathBuf {
        self.dir.path().join("hostlet/store.redb")
    }

    /// Starts a daemon that has adopted these pods.
    async fn start(&self, pods: &[Arc<AdmittedPod>]) -> Daemon {
        let (store, writer) = Store::open(self.store_path()).await;
        let offline = OfflineObjects::new(store.clone(), place(self.dir.path()), self.clock.clone());
        let (objects_task, objects) = ApiObjects::new(self.api.client(), offline.clone(), projections());
        let desired_pods = watch::Sender::new(DesiredPods { pods: pods.to_vec(), ..DesiredPods::default() });
        let users = OfflineUsers {
            desired_pods: desired_pods.subscribe(),
            references,
            volume_needs: self.volume_needs.subscribe(),
        };
        let task = OfflineObjectsTask::new(offline.clone(), users);
        let cancel = CancellationToken::new();
        #[expect(clippy::disallowed_methods, reason = "tasks of a test")]
        {
            tokio::spawn(objects_task.run(cancel.clone()));
            tokio::spawn(task.run(cancel.clone()));
        }
        Daemon { store, writer, offline, objects, desired_pods, _running: cancel.drop_guard() }
    }

    fn set_secret(&self, name: &str, value: &str) {
        let data = json!({"k": k8s_openapi::ByteString(value.as_bytes().to_vec())});
        let secret = json!({"metadata": {"name": name}, "data": data, "type": "Opaque"});
        let secret: k8s_openapi::api::core::v1::Secret = serde_json::from_value(secret).unwrap();
        self.api.put(&path(name), &secret);
    }

    fn disconnect(&self) {
        self.api.fail(ApiRule::always("", "", ApiFault::Reset));
    }
}

fn path(name: &str) -> String {
    format!("/api/v1/namespaces/ns/secrets/{name}")
}

/// A pod that uses these Secrets, and a token.
fn pod(uid: &str, secrets: &[&str]) -> Arc<AdmittedPod> {
    let volume = |name: &&str| json!({"name": name, "secret": {"secretName": name}});
    let volumes: Vec<_> = secrets.iter().map(volume).collect();
    let metadata = json!({"name": "web", "namespace": "ns", "uid": uid});
    let pod = json!({"metadata": metadata, "spec": {"containers": [], "volumes": volumes}});
    AdmittedPod::new(serde_json::from_value::<Pod>(pod).unwrap())
}

fn references(pod: &AdmittedPod) -> ObjectReferences {
    let volumes = pod.spec().volumes.iter().flatten().filter_map(|volume| volume.secret.as_ref());
    let names = volumes.filter_map(|secret| secret.secret_name.as_deref());
    let objects = names.map(|name| ObjectRef::secret(name, &pod.reference.namespace)).collect();
    let tokens = BTreeSet::from([request(pod.reference.uid.as_str())]);
    ObjectReferences { objects, tokens, trust_bundles: BTreeSet::from([bundles()]) }
}

fn bundles() -> TrustBundleRef {
    TrustBundleRef::OfSigner { signer: "example.com/s".to_owned(), selector: Some("tier=live".to_owned()) }
}

fn request(uid: &str) -> TokenRequest {
    TokenRequest {
        namespace: "ns".to_owned(),
        service_account: "sa".to_owned(),
        service_account_uid: None,
        audiences: Vec::new(),
        expiration_seconds: 3600,
        pod_name: "web".to_owned(),
        pod_uid: uid.to_owned(),
    }
}

/// The value of a Secret, or what is known instead.
fn value(known: &ObjectState) -> String {
    match known {
        ObjectState::Found(secret) => String::from_utf8(secret.get("k").unwrap().to_vec()).unwrap(),
        ObjectState::Failed(ObjectError::NotFound(_)) => "not found".to_owned(),
        ObjectState::Failed(ObjectError::Forbidden(_)) => "forbidden".to_owned(),
        ObjectState::Failed(ObjectError::Unavailable(_)) => "unavailable".to_owned(),
        ObjectState::Pending => "pending".to_owned(),
    }
}

impl Daemon {
    fn watch(&self, name: &str) -> watch::Receiver<ObjectState> {
        self.objects.watch(&ObjectRef::secret(name, "ns"))
    }

    /// Waits until the Secret has this value.
    async fn until(&self, known: &mut watch::Receiver<ObjectState>, expected: &str, within: Duration) {
        let waited = timeout(within, known.wait_for(|known| value(known) == expected)).await.is_ok();
        assert!(waited, "expected {expected}, known is {}", value(&known.borrow()));
    }

    /// Waits until the Secret is known with this value.
    async fn reads(&self, name: &str, value: &str, within: Duration) -> watch::Receiver<ObjectState> {
        let mut known = self.watch(name);
        self.until(&mut known, value, within).await;
        known
    }

    fn set_pods(&self, pods: &[Arc<AdmittedPod>]) {
        let pods = pods.to_vec();
        self.desired_pods.send_replace(DesiredPods { ready: true, pods, ..DesiredPods::default() });
    }

    fn rows(&self) -> usize {
        self.store.keys(Table::OfflineObjects).len() + self.store.keys(Table::OfflineTokens).len()
    }

    /// What pods rely on.
    fn served(&self, pod: &AdmittedPod) -> Vec<String> {
        self.offline
            .served(&pod.reference.uid, references(pod))
            .iter()
            .map(|copy| copy.subject.to_string())
            .collect()
    }

    /// Writes all, and ends as if killed.
    fn stop(mut self) {
        assert!(self.writer.write());
    }
}

/// Whether any file below a directory has this text.
fn disk_has(path: &Path, text: &str) -> bool {
    if path.is_dir() {
        return fs::read_dir(path).unwrap().any(|entry| disk_has(&entry.unwrap().path(), text));
    }
    fs::read(path).unwrap().windows(text.len()).any(|part| part == text.as_bytes())
}

#[tokio::test(start_paused = true)]
async fn after_a_reboot_without_the_api_server_pods_have_their_objects_and_what_it_says_later_replaces_them()
{
    let host = Host::new();
    let web = pod("u1", &["db", "removed"]);
    for name in ["db", "removed"] {
        host.set_secret(name, PLAIN);
    }
    let daemon = host.start(std::slice::from_ref(&web)).await;
    let known = [daemon.reads("db", PLAIN, SOON).await, daemon.reads("removed", PLAIN, SOON).await];
    let token = daemon.objects.request_token(&request("u1")).await.unwrap();
    assert_eq!(daemon.served(&web), [""; 0]);
    drop(known);
    daemon.stop();
    assert!(!disk_has(host.dir.path(), PLAIN) && !disk_has(host.dir.path(), &token.value));

    host.disconnect();
    let daemon = host.start(std::slice::from_ref(&web)).await;
    let mut known = daemon.reads("db", PLAIN, Duration::from_secs(3)).await;
    let mut removed = daemon.reads("removed", PLAIN, Duration::from_secs(3)).await;
    assert!(daemon.objects.request_token(&request("u1")).await.is_err());
    assert_eq!(daemon.objects.stored_token(&request("u1")).unwrap().value, token.value);
    let served = ["secret ns/db", "secret ns/removed", "token of serviceaccount ns/sa"];
    assert_eq!(daemon.served(&web), served);
    let copies = daemon.offline.served(&web.reference.uid, references(&web));
    let expires: Timestamp = "2026-11-21T08:00:00Z".parse().unwrap();
    assert_eq!(copies[2].expires.map(|at| at.duration_since(expires).as_secs() / 10), Some(0));

    // The API server is back, with a change and without one of the Secrets.
    host.set_secret("db", "changed");
    host.api.delete(&path("removed"), None);
    host.api.heal();
    daemon.until(&mut known, "changed", PATIENCE).await;
    daemon.until(&mut removed, "not found", PATIENCE).await;
    daemon.objects.request_token(&request("u1")).await.unwrap();
    assert_eq!((daemon.served(&web).len(), daemon.rows()), (0, 2));
}

#[tokio::test(start_paused = true)]
async fn a_copy_is_used_only_if_the_api_server_does_not_answer() {
    let host = Host::new();
    let web = pod("u1", &["db"]);
    host.set_secret("db", "old");
    let daemon = host.start(std::slice::from_ref(&web)).await;
    drop(daemon.reads("db", "old", SOON).await);
    daemon.stop();
    host.set_secret("db", "new");

    // A slow answer is one.
    host.api.fail(ApiRule::once("WATCH", "secrets", ApiFault::Delay(Duration::from_secs(4))));
    let daemon = host.start(std::slice::from_ref(&web)).await;
    let mut known = daemon.watch("db");
    known.changed().await.unwrap();
    assert_eq!(value(&known.borrow()), "new");
    // So is a rejection, if not all are rejected.
    let rejected = |code, reason| ApiFault::Reject { code, reason, retry_after: 0 };
    host.api.fail(ApiRule::always("", "secrets", rejected(403, "Forbidden")));
    drop(known);
    sleep(SOON).await;
    let mut known = daemon.watch("db");
    known.changed().await.unwrap();
    assert_eq!(value(&known.borrow()), "forbidden");
    drop(known);
    daemon.stop();

    // Without valid credentials, everything is rejected. A network that swallows everything gives no answer at all.
    for fault in [rejected(401, "Unauthorized"), rejected(503, "ServiceUnavailable"), ApiFault::Hang] {
        host.api.heal();
        host.api.fail(ApiRule::always("", "", fault.clone()));
        let daemon = host.start(std::slice::from_ref(&web)).await;
        drop(daemon.reads("db", "new", Duration::from_secs(6)).await);
        assert_eq!(daemon.served(&web), ["secret ns/db"], "{fault:?}");
        daemon.stop();
    }
}

#[tokio::test(start_paused = true)]
async fn copies_are_removed_with_their_last_user_and_not_before_all_pods_are_known() {
    let host = Host::new();
    let (web, other) = (pod("u1", &["db", "own"]), pod("u2", &["db"]));
    ["db", "own", "unused"].iter().for_each(|name| host.set_secret(name, "x"));
    let daemon = host.start(&[web.clone(), other.clone()]).await;
    let mut known = Vec::new();
    for name in ["db", "own", "unused"] {
        known.push(daemon.reads(name, "x", SOON).await);
    }
    daemon.objects.request_token(&request("u1")).await.unwrap();
    // Nobody's token, like one for an image pull, is not stored.
    daemon.objects.request_token(&TokenRequest { expiration_seconds: 7, ..request("u1") }).await.unwrap();
    assert_eq!((daemon.rows(), daemon.store.keys(Table::OfflineTokens).len()), (3, 1));
    drop(known);
    daemon.stop();

    // The sources were not read yet: nothing of the pods that may come is removed.
    let daemon = host.start(&[]).await;
    sleep(SOON).await;
    assert_eq!(daemon.rows(), 3);
    daemon.set_pods(std::slice::from_ref(&other));
    sleep(SOON).await;
    assert_eq!(daemon.store.keys(Table::OfflineObjects), ["secret/ns/db"]);
    assert_eq!(daemon.rows(), 1);
    daemon.set_pods(&[]);
    sleep(SOON).await;
    assert_eq!(daemon.rows(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_host_that_opted_out_has_nothing_on_its_disk() {
    let host = Host::new();
    let web = pod("u1", &["db"]);
    host.set_secret("db", PLAIN);
    let daemon = host.start(std::slice::from_ref(&web)).await;
    drop(daemon.reads("db", PLAIN, SOON).await);
    daemon.stop();
    let place = place(host.dir.path());
    assert!(place.file.exists());

    let (store, mut writer) = Store::open(host.store_path()).await;
    OfflineObjects::discard(&store, &place).unwrap();
    let offline = OfflineObjects::default();
    let (_task, objects) = ApiObjects::new(host.api.client(), offline.clone(), projections());
    objects.request_token(&request("u1")).await.unwrap();
    assert!(writer.write());
    assert!(!place.file.exists() && store.keys(Table::OfflineObjects).is_empty());
    assert_eq!(objects.stored_token(&request("u1")), None);
}

#[tokio::test(start_paused = true)]
async fn a_row_that_cannot_be_opened_is_reported_and_fetched_again() {
    let host = Host::new();
    let web = pod("u1", &["db"]);
    host.set_secret("db", "x");
    let daemon = host.start(std::slice::from_ref(&web)).await;
    drop(daemon.reads("db", "x", SOON).await);
    daemon.stop();
    // Another key.
    fs::write(place(host.dir.path()).file, [9; 32]).unwrap();

    host.disconnect();
    let daemon = host.start(std::slice::from_ref(&web)).await;
    let problem = daemon.offline.problem().borrow().clone().unwrap();
    assert!(problem.starts_with("1 stored copies") && problem.contains("secret/ns/db: "), "{problem}");
    let mut known = daemon.watch("db");
    sleep(Duration::from_secs(10)).await;
    assert_eq!(value(&known.borrow()), "unavailable");
    // Its row stays, since the key may return, until the API server has sent the Secret.
    assert_eq!(daemon.rows(), 1);
    host.api.heal();
    daemon.until(&mut known, "x", PATIENCE).await;
    assert_eq!(*daemon.offline.problem().borrow(), None);
    drop(known);
    daemon.stop();
    host.disconnect();
    let daemon = host.start(std::slice::from_ref(&web)).await;
    daemon.reads("db", "x", Duration::from_secs(3)).await;
}

#[tokio::test(start_paused = true)]
async fn without_a_key_copies_are_in_memory_until_there_is_one() {
    let host = Host::new();
    let web = pod("u1", &["db"]);
    host.set_secret("db", "x");
    let credentials = host.dir.path().join("credentials");
    fs::create_dir(&credentials).unwrap();
    fs::write(credentials.join(KEY_CREDENTIAL), "short").unwrap();
    let daemon = host.start(std::slice::from_ref(&web)).await;
    let known = daemon.reads("db", "x", SOON).await;
    let problem = daemon.offline.problem().borrow().clone().unwrap();
    assert!(problem.contains("has 5 bytes, not 32"), "{problem}");
    assert_eq!(daemon.rows(), 0);
    fs::write(credentials.join(KEY_CREDENTIAL), [3; 32]).unwrap();
    sleep(PATIENCE).await;
    assert_eq!((daemon.rows(), daemon.offline.problem().borrow().clone()), (1, None));
    drop(known);
}

#[tokio::test(start_paused = true)]
async fn a_clock_that_is_wrong_by_years_loses_nothing() {
    const YEARS: i64 = 10 * 365 * 24 * 3600;
    for step in [YEARS, -YEARS] {
        let host = Host::new();
        let web = pod("u1", &["db"]);
        host.set_secret("db", "x");
        let daemon = host.start(std::slice::from_ref(&web)).await;
        drop(daemon.reads("db", "x", SOON).await);
        let token: Token = daemon.objects.request_token(&request("u1")).await.unwrap();
        daemon.stop();
        host.disconnect();
        for seconds in [step, -step] {
            host.clock.set(seconds);
            let daemon = host.start(std::slice::from_ref(&web)).await;
            daemon.set_pods(std::slice::from_ref(&web));
            drop(daemon.reads("db", "x", Duration::from_secs(3)).await);
            let stored = daemon.objects.stored_token(&request("u1")).unwrap();
            assert_eq!(stored.value, token.value, "{step}");
            daemon.stop();
        }
    }
}

#[tokio::test(start_paused = true)]
async fn what_does_not_change_is_not_written_and_what_changes_often_is_written_seldom() {
    let host = Host::new();
    let web = pod("u1", &["db", "busy"]);
    ["db", "busy"].iter().for_each(|name| host.set_secret(name, "0"));
    for start in 0..2 {
        let Daemon { store, writer, offline, objects, desired_pods, _running } =
            host.start(std::slice::from_ref(&web)).await;
        let metrics = Metrics::default();
        store.register(&metrics);
        let writes = || {
            let text = metrics.encode();
            let line =
                text.lines().find(|line| line.starts_with("hostlet_store_write_duration_seconds_count"));
            line.unwrap().split(' ').nth(1).unwrap().parse::<u32>().unwrap()
        };
        let cancel = CancellationToken::new();
        let changes = async {
            let mut known = ["db", "busy"].map(|name| objects.watch(&ObjectRef::secret(name, "ns")));
            for receiver in &mut known {
                receiver.changed().await.unwrap();
            }
            sleep(Duration::from_secs(600)).await;
            // The second daemon finds everything as it is.
            assert_eq!(writes(), if start == 0 { 1 } else { 0 });
            let before = writes();
            for n in 0..200 {
                host.set_secret("busy", &format!("{start}-{n}"));
                objects.request_token(&request("u1")).await.unwrap();
                sleep(Duration::from_secs(1)).await;
            }
            let made = writes() - before;
            // The first token is new, and written soon.
            assert!(made <= 200 / 30 + 2, "{made}");
            cancel.cancel();
        };
        tokio::join!(writer.run(cancel.clone()), changes);
        drop((offline, desired_pods));
    }
}

#[test]
fn copies_are_named_for_people() {
    let map = CopySubject::Object(ObjectRef::config_map("web", "ns"));
    assert_eq!(map.to_string(), "configmap ns/web");
}

/// Waits until the trust anchors are known, with this number of bundles.
async fn anchors(daemon: &Daemon, bundles: usize) -> Arc<TrustAnchors> {
    let mut known = daemon.objects.watch_trust_bundles(&self::bundles());
    let is_known = |state: &TrustBundleState| matches!(state, TrustBundleState::Known(anchors) if anchors.bundles == bundles);
    let state = timeout(PATIENCE, known.wait_for(is_known)).await.expect("trust anchors").unwrap().clone();
    match state {
        TrustBundleState::Known(anchors) => anchors,
        TrustBundleState::Pending | TrustBundleState::Failed(_) => panic!("they are known"),
    }
}

#[tokio::test(start_paused = true)]
async fn trust_anchors_survive_a_reboot_without_the_api_server_but_not_their_bundles() {
    let host = Host::new();
    let path = "/apis/certificates.k8s.io/v1/clustertrustbundles/example.com:s:one";
    let certificate = FakeAuthority::new().certificate().unwrap();
    let spec = json!({"signerName": "example.com/s", "trustBundle": certificate});
    let metadata = json!({"name": "example.com:s:one", "labels": {"tier": "live"}});
    host.api.put(path, &json!({"metadata": metadata, "spec": spec}));
    let pods = [pod("u1", &[])];
    let daemon = host.start(&pods).await;
    assert_eq!(anchors(&daemon, 1).await.pem, certificate);
    daemon.stop();

    host.disconnect();
    let daemon = host.start(&pods).await;
    assert_eq!(anchors(&daemon, 1).await.pem, certificate);
    let needed =
        || ObjectReferences { trust_bundles: BTreeSet::from([bundles()]), ..ObjectReferences::default() };
    let served = daemon.offline.served(&"u1".into(), needed());
    assert_eq!(served[0].subject.to_string(), "clustertrustbundles of example.com/s");
    host.api.heal();
    host.api.delete(path, None);
    anchors(&daemon, 0).await;
    assert_eq!(daemon.offline.served(&"u1".into(), needed()), []);
    daemon.stop();

    host.disconnect();
    let daemon = host.start(&pods).await;
    let mut known = daemon.objects.watch_trust_bundles(&bundles());
    let is_failed = |state: &TrustBundleState| matches!(state, TrustBundleState::Failed(_));
    timeout(PATIENCE, known.wait_for(is_failed)).await.expect("an error").unwrap();
}

#[tokio::test(start_paused = true)]
async fn the_secret_of_a_persistent_volume_is_stored_while_its_pod_is_there() {
    let host = Host::new();
    host.set_secret("volume", "one");
    let pod = pod("a", &[]);
    let objects = BTreeSet::from([ObjectRef::secret("volume", "ns")]);
    let needed = ObjectReferences { objects, ..ObjectReferences::default() };
    let daemon = host.start(std::slice::from_ref(&pod)).await;
    daemon.set_pods(std::slice::from_ref(&pod));
    host.volume_needs.send_replace(VolumeNeeds::from([(pod.reference.uid.clone(), needed)]));
    daemon.reads("volume", "one", SOON).await;
    assert_eq!(daemon.store.keys(Table::OfflineObjects).len(), 1);
    daemon.stop();

    host.disconnect();
    let daemon = host.start(std::slice::from_ref(&pod)).await;
    daemon.set_pods(&[pod]);
    daemon.reads("volume", "one", PATIENCE).await;
    daemon.set_pods(&[]);
    sleep(SOON).await;
    assert_eq!(daemon.store.keys(Table::OfflineObjects).len(), 0);
    daemon.stop();
}

#[tokio::test(start_paused = true)]
async fn the_token_for_a_driver_is_stored_until_its_pod_is_gone_also_before_it_is_known_what_drivers_want() {
    let host = Host::new();
    let (pod, wanted) =
        (pod("u1", &[]), TokenRequest { audiences: vec!["vault".to_owned()], ..request("u1") });
    let daemon = host.start(std::slice::from_ref(&pod)).await;
    let tokens = BTreeSet::from([wanted.clone()]);
    let needed = ObjectReferences { tokens, ..ObjectReferences::default() };
    host.volume_needs.send_replace(VolumeNeeds::from([(pod.reference.uid.clone(), needed.clone())]));
    let token = daemon.objects.request_token(&wanted).await.unwrap();
    daemon.stop();

    host.disconnect();
    host.volume_needs.send_replace(VolumeNeeds::new());
    let daemon = host.start(std::slice::from_ref(&pod)).await;
    daemon.set_pods(std::slice::from_ref(&pod));
    sleep(SOON).await;
    assert_eq!(daemon.objects.stored_token(&wanted).unwrap().value, token.value);
    host.volume_needs.send_replace(VolumeNeeds::from([(pod.reference.uid.clone(), needed)]));
    assert_eq!(daemon.served(&pod), ["token of serviceaccount ns/sa for vault"]);
    daemon.set_pods(&[]);
    sleep(SOON).await;
    assert_eq!(daemon.objects.stored_token(&wanted), None);
    daemon.stop();
}
