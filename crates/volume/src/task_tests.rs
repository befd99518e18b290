//! Volumes from a worker's view: they appear with their objects, change with them, renew tokens, and survive the daemon.

use std::collections::BTreeMap;
use std::time::Duration;

use hostlet_csi::{KnownDrivers, StandIn};
use hostlet_host::PathWork;
use hostlet_pod::objects::{
    CertificateError, CertificateState, ClaimError, ClaimState, Credential, FakeObjects, ObjectError,
    ObjectKind, ObjectRef, ObjectState, Token, TrustAnchors, TrustBundleRef, TrustBundleState,
};
use hostlet_pod::{AdmittedPod, ExternalVolume};
use jiff::Timestamp;
use serde_json::{Value, json};

use super::*;
use crate::testing::{Host, NODE, UID, pod};

/// A timeout far beyond what a busy machine needs.
const PATIENCE: Duration = Duration::from_secs(60);

struct Room {
    host: Host,
    objects: FakeObjects,
    volumes: Volumes,
    csi: StandIn,
    drivers: watch::Sender<KnownDrivers>,
    _tasks: JoinSet<()>,
}

impl Room {
    fn new() -> Self {
        let base: Timestamp = "2026-11-21T07:00:00Z".parse().unwrap();
        Self::on(Host::new(), FakeObjects::new(WallClock::of_tokio(base)), WallClock::of_tokio(base))
    }

    fn on(host: Host, objects: FakeObjects, clock: WallClock) -> Self {
        Self::with_threads(host, objects, clock, VolumeThreads::default())
    }

    fn with_threads(host: Host, objects: FakeObjects, clock: WallClock, threads: VolumeThreads) -> Self {
        let (csi, handle, answers) = StandIn::new();
        let drivers = watch::Sender::new(KnownDrivers { is_listed: true, ..KnownDrivers::default() });
        let settings = VolumeSettings {
            root: host.root.path().to_owned(),
            node: NODE,
            labels: Arc::new(BTreeMap::new),
            mounts: Arc::new(host.mounts.clone()),
            objects: Arc::new(objects.clone()),
            csi: handle,
            drivers: DriverObjects::new(drivers.subscribe()),
            expansions: None,
            file_label: None,
            clock,
        };
        let (task, volumes) = Volumes::with_threads(settings, threads);
        let mut tasks = JoinSet::new();
        tasks.spawn(task.run(CancellationToken::new()));
        tasks.spawn(answers);
        Self { host, objects, volumes, csi, drivers, _tasks: tasks }
    }

    async fn set_up(&self, pod: &Arc<AdmittedPod>) -> PodVolumes {
        self.volumes.set_up(VolumeOwner { pod: pod.clone(), memory_limit: None }).await.unwrap()
    }

    /// Waits until a file of a volume has this content.
    async fn wait_for(&self, path: &str, content: Option<&str>) {
        let waited = tokio::time::timeout(PATIENCE, async {
            while self.host.read(path).as_deref() != content {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        });
        let seen = || format!("{path} holds {:?}, not {content:?}", self.host.read(path));
        waited.await.unwrap_or_else(|_| panic!("{}", seen()));
    }
}

fn config_map(name: &str) -> Value {
    json!([{"name": "v", "configMap": {"name": name}}])
}

const FILE: &str = "kubernetes.io~configmap/v/k";
const TOKEN: &str = "kubernetes.io~projected/v/token";

fn token_volume() -> Value {
    json!([{"name": "v", "projected": {"sources": [
        {"serviceAccountToken": {"path": "token", "expirationSeconds": 3600}}]}}])
}

#[tokio::test]
async fn a_change_of_an_object_updates_the_file_without_a_request() {
    let room = Room::new();
    room.objects.put(ObjectKind::ConfigMap, "ns", "cm", &[("k", "one")]);
    let pod = pod(config_map("cm"));
    let volumes = room.set_up(&pod).await;
    assert!(volumes.problems.is_empty() && volumes.mounted["v"].read_only);
    assert_eq!(room.host.read(FILE).unwrap(), "one");
    for content in ["two", "three"] {
        room.objects.put(ObjectKind::ConfigMap, "ns", "cm", &[("k", content)]);
        room.wait_for(FILE, Some(content)).await;
    }
    room.objects.put(ObjectKind::ConfigMap, "ns", "cm", &[("other", "x")]);
    room.wait_for(FILE, None).await;
}

#[tokio::test]
async fn a_missing_object_and_its_appearance_are_reported() {
    let room = Room::new();
    let pod = pod(json!([
        {"name": "v", "configMap": {"name": "cm"}}, {"name": "e", "emptyDir": {}},
        {"name": "o", "secret": {"secretName": "none", "optional": true}}
    ]));
    let volumes = room.set_up(&pod).await;
    assert_eq!(volumes.mounted.keys().collect::<Vec<_>>(), ["e", "o"]);
    let texts: Vec<_> = volumes.problems.iter().map(ToString::to_string).collect();
    assert_eq!(texts, ["MountVolume.SetUp failed for volume \"v\" : configmap \"cm\" not found"]);
    room.objects.put(ObjectKind::ConfigMap, "ns", "cm", &[("k", "here")]);
    let changed = tokio::time::timeout(PATIENCE, room.volumes.changed()).await.unwrap();
    assert_eq!(changed, UID.into());
    assert_eq!(room.set_up(&pod).await.problems, []);
    assert_eq!(room.host.read(FILE).unwrap(), "here");
    // Deleted while the pod runs: reported, and the files stay.
    room.objects.remove(ObjectKind::ConfigMap, "ns", "cm");
    let changed = tokio::time::timeout(PATIENCE, room.volumes.changed()).await.unwrap();
    assert_eq!(changed, UID.into());
    let volumes = room.set_up(&pod).await;
    assert_eq!((volumes.mounted.len(), volumes.problems.len()), (3, 1));
    assert_eq!(room.host.read(FILE).unwrap(), "here");
}

#[tokio::test]
async fn changed_labels_update_the_file_at_the_next_sync() {
    let room = Room::new();
    let items = json!([{"path": "k", "fieldRef": {"fieldPath": "metadata.labels"}}]);
    let pod = pod(json!([{"name": "v", "downwardAPI": {"items": items}}]));
    room.set_up(&pod).await;
    let file = "kubernetes.io~downward-api/v/k";
    assert_eq!(room.host.read(file).unwrap(), "app=\"web\"");
    let pod = pod.edited(|pod| pod.metadata.labels = Some([("app".to_owned(), "new".to_owned())].into()));
    room.set_up(&pod).await;
    assert_eq!(room.host.read(file).unwrap(), "app=\"new\"");
}

#[tokio::test]
async fn trust_anchors_and_certificates_are_in_memory_and_follow_their_sources_until_the_pod_ends() {
    let room = Room::new();
    let certificate =
        json!({"signerName": "example.com/s", "keyType": "ED25519", "credentialBundlePath": "tls"});
    let sources =
        json!([{"clusterTrustBundle": {"name": "b", "path": "ca"}}, {"podCertificate": certificate}]);
    let pod = pod(json!([{"name": "v", "projected": {"sources": sources}}]));
    let bundle = |pem: &str| {
        let anchors = TrustAnchors { bundles: 1, pem: pem.to_owned() };
        room.objects.set_trust_bundles(
            TrustBundleRef::Named("b".to_owned()),
            TrustBundleState::Known(Arc::new(anchors)),
        );
    };
    let issue = |key: &str| {
        let credential = Credential { key: key.to_owned(), chain: "CHAIN".to_owned() };
        room.objects.set_certificate("v", CertificateState::Issued(Arc::new(credential)));
    };
    let fail = |text: &str| {
        let error = CertificateError::Unavailable(ObjectError::Unavailable(text.to_owned()));
        room.objects.set_certificate("v", CertificateState::Failed(error));
    };
    bundle("ONE");
    fail("no answer");
    let text = room.set_up(&pod).await.problems[0].to_string();
    let expected =
        "MountVolume.SetUp failed for volume \"v\" : credential bundle is not issued yet: no answer";
    assert_eq!(text, expected);
    issue("KEY1");
    let changed = tokio::time::timeout(PATIENCE, room.volumes.changed()).await.unwrap();
    assert_eq!(changed, UID.into());
    assert_eq!(room.set_up(&pod).await.problems, []);
    assert_eq!(room.host.mounts.points(), [room.host.at("volumes/kubernetes.io~projected/v")]);
    let files = ["kubernetes.io~projected/v/ca", "kubernetes.io~projected/v/tls"];
    assert_eq!(files.map(|file| room.host.read(file).unwrap()), ["ONE", "KEY1CHAIN"]);
    bundle("TWO");
    room.wait_for(files[0], Some("TWO")).await;
    issue("KEY2");
    room.wait_for(files[1], Some("KEY2CHAIN")).await;
    // A signer that denies the renewal takes nothing away.
    fail("denied");
    let changed = tokio::time::timeout(PATIENCE, room.volumes.changed()).await.unwrap();
    assert_eq!((changed, room.host.read(files[1])), (UID.into(), Some("KEY2CHAIN".to_owned())));
    assert_eq!(room.objects.certificate_watchers("v"), 1);
    room.volumes.tear_down(&UID.into()).await.unwrap();
    assert_eq!((room.objects.certificate_watchers("v"), room.host.read(files[1])), (0, None));
}

#[tokio::test(start_paused = true)]
async fn waiting_for_an_object_times_out() {
    let room = Room::new();
    room.objects.set(ObjectKind::ConfigMap, "ns", "cm", ObjectState::Pending);
    let pod = pod(config_map("cm"));
    let volumes = room.set_up(&pod).await;
    let expected = "MountVolume.SetUp failed for volume \"v\" : timed out waiting for the configmap \"cm\"";
    assert_eq!(volumes.problems[0].to_string(), expected);
    // It is waited for only once.
    let before = tokio::time::Instant::now();
    room.set_up(&pod).await;
    assert!(before.elapsed() < Duration::from_secs(1), "{:?}", before.elapsed());
    // A worker that stops waiting can tear down the volumes at once.
    room.objects.set(ObjectKind::ConfigMap, "ns", "other", ObjectState::Pending);
    let pod = self::pod(config_map("other"));
    let given_up = tokio::time::timeout(Duration::from_secs(1), room.set_up(&pod)).await;
    assert!(given_up.is_err());
    room.volumes.tear_down(&UID.into()).await.unwrap();
    assert!(before.elapsed() < Duration::from_secs(2), "{:?}", before.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_token_is_renewed_before_it_expires_and_used_until_then() {
    let room = Room::new();
    room.set_up(&pod(token_volume())).await;
    assert_eq!(room.host.read(TOKEN).unwrap(), "token-1");
    tokio::time::sleep(Duration::from_secs(2_800)).await;
    assert_eq!(room.host.read(TOKEN).unwrap(), "token-1");
    room.objects.fail_tokens(Some(ObjectError::Unavailable("connection refused".into())));
    tokio::time::sleep(Duration::from_secs(100)).await;
    assert!(room.objects.tokens() > 2, "requested again and again");
    assert_eq!(room.host.read(TOKEN).unwrap(), "token-1");
    room.objects.fail_tokens(None);
    let requested = room.objects.tokens();
    tokio::time::sleep(Duration::from_secs(120)).await;
    let token = format!("token-{}", requested + 1);
    assert_eq!(room.host.read(TOKEN), Some(token));
    tokio::time::sleep(Duration::from_secs(2_700)).await;
    assert_eq!(room.objects.tokens(), requested + 1, "renewed once, and not again while it is fresh");
}

#[tokio::test(start_paused = true)]
async fn the_clock_of_the_api_server_decides_nothing() {
    const HOUR: i64 = 3600;
    let base: Timestamp = "2026-11-21T07:00:00Z".parse().unwrap();
    for ahead in [-48 * HOUR, -2, 2, HOUR - 60, HOUR, 2 * HOUR] {
        let (clock, server) = (WallClock::of_tokio(base), WallClock::of_tokio(base));
        clock.set(ahead);
        let room = Room::on(Host::new(), FakeObjects::new(server), clock);
        let pod = pod(token_volume());
        for _ in 0..3 {
            assert_eq!(room.set_up(&pod).await.problems, [], "{ahead}");
        }
        tokio::time::sleep(Duration::from_secs(2_800)).await;
        assert_eq!(room.objects.tokens(), 1, "{ahead}");
        tokio::time::sleep(Duration::from_secs(200)).await;
        assert_eq!(room.objects.tokens(), 2, "{ahead}");
        assert_eq!(room.host.read(TOKEN).unwrap(), "token-2", "{ahead}");
    }
}

#[tokio::test(start_paused = true)]
async fn after_a_reboot_the_stored_token_is_used_until_a_new_one_is_issued_or_it_expires() {
    let base: Timestamp = "2026-11-21T07:00:00Z".parse().unwrap();
    let clock = WallClock::of_tokio(base);
    let room = Room::on(Host::new(), FakeObjects::new(WallClock::of_tokio(base)), clock.clone());
    let hour = Duration::from_secs(3600);
    room.objects.store_token(Token {
        value: "stored".to_owned(),
        issued: base - hour / 2,
        expires: base + hour / 2,
    });
    room.objects.fail_tokens(Some(ObjectError::Unavailable("connection refused".into())));
    let pod = pod(token_volume());
    assert_eq!(room.set_up(&pod).await.problems, []);
    assert_eq!(room.host.read(TOKEN).unwrap(), "stored");
    // The API server was asked first, and is asked again although the token is not due.
    let requested = room.objects.tokens();
    tokio::time::sleep(Duration::from_secs(100)).await;
    assert!(requested > 0 && room.objects.tokens() > requested);
    // It expires when its time has passed, whatever the clock is set to.
    const YEARS: i64 = 10 * 365 * 24 * 3600;
    for wrong in [YEARS, -YEARS] {
        clock.set(wrong);
        assert_eq!(room.set_up(&pod).await.problems, [], "{wrong}");
        assert_eq!(room.host.read(TOKEN).unwrap(), "stored");
        clock.set(-wrong);
    }
    tokio::time::sleep(hour / 2).await;
    let problems = room.set_up(&pod).await.problems;
    let text = problems.iter().map(ToString::to_string).collect::<String>();
    assert!(text.contains("no new one can be requested: connection refused"), "{text}");
    room.objects.fail_tokens(None);
    let requested = room.objects.tokens();
    tokio::time::sleep(Duration::from_secs(61)).await;
    assert_eq!(room.host.read(TOKEN), Some(format!("token-{}", requested + 1)));
}

#[tokio::test(start_paused = true)]
async fn a_new_daemon_uses_the_existing_token() {
    use base64::Engine;
    use base64::engine::general_purpose::URL_SAFE_NO_PAD;

    let base: Timestamp = "2026-11-21T07:00:00Z".parse().unwrap();
    let room = Room::new();
    let pod = pod(token_volume());
    room.set_up(&pod).await;
    // In the API server's format.
    let claims = format!("{{\"iat\": {}, \"exp\": {}}}", base.as_second(), base.as_second() + 3600);
    let token = format!("e30.{}.c2ln", URL_SAFE_NO_PAD.encode(claims));
    let data = room.host.at("volumes/kubernetes.io~projected/v/..data/token");
    std::fs::write(data, &token).unwrap();
    let (host, objects) = (room.host, room.objects);
    let requested = objects.tokens();
    drop(room._tasks);
    let room = Room::on(host, objects, WallClock::of_tokio(base));
    assert_eq!(room.set_up(&pod).await.problems, []);
    assert_eq!(room.host.read(TOKEN), Some(token));
    assert_eq!(room.objects.tokens(), requested);
    tokio::time::sleep(Duration::from_secs(2_900)).await;
    assert_eq!(room.objects.tokens(), requested + 1);
}

#[tokio::test]
async fn a_daemon_tears_down_volumes_it_did_not_set_up() {
    let room = Room::new();
    room.objects.put(ObjectKind::Secret, "ns", "s", &[("k", "v")]);
    let pod = pod(json!([{"name": "s", "secret": {"secretName": "s"}}, {"name": "e", "emptyDir": {}}]));
    assert_eq!(room.set_up(&pod).await.problems, []);
    assert_eq!(room.host.mounts.points().len(), 1);
    let (host, objects) = (room.host, room.objects);
    drop(room._tasks);
    let room = Room::on(host, objects, WallClock::system());
    room.volumes.tear_down(&UID.into()).await.unwrap();
    assert!(room.host.mounts.points().is_empty());
    assert!(!room.host.at("volumes/kubernetes.io~empty-dir/e").exists());
}

#[tokio::test]
async fn a_busy_volume_is_reported_and_removed_by_a_retry_which_ends_its_watches() {
    let room = Room::new();
    room.objects.put(ObjectKind::Secret, "ns", "s", &[("k", "v")]);
    room.set_up(&pod(json!([{"name": "v", "secret": {"secretName": "s"}}]))).await;
    assert_eq!(room.objects.watchers(ObjectKind::Secret, "ns", "s"), 1);
    room.host.mounts.set_busy(true);
    room.volumes.tear_down(&UID.into()).await.unwrap_err();
    room.objects.put(ObjectKind::Secret, "ns", "s", &[("k", "late")]);
    room.host.mounts.set_busy(false);
    room.volumes.tear_down(&UID.into()).await.unwrap();
    assert!(room.host.mounts.points().is_empty());
    assert_eq!(room.objects.watchers(ObjectKind::Secret, "ns", "s"), 0);
}

#[tokio::test]
async fn a_pod_without_volumes_and_an_invalid_uid() {
    let room = Room::new();
    assert_eq!(room.set_up(&pod(json!([]))).await, PodVolumes::default());
    room.volumes.tear_down(&"never-heard-of".into()).await.unwrap();
    // It is no name of a directory, so there is nothing of it.
    room.volumes.tear_down(&"../..".into()).await.unwrap();
}

fn bound_to(path: &std::path::Path) -> ClaimState {
    let spec = json!({"local": {"path": path.to_str().unwrap()}, "accessModes": ["ReadWriteOnce"]});
    let volume = json!({"metadata": {"name": "pv-1"}, "spec": spec});
    ClaimState::Bound(Arc::new(serde_json::from_value(volume).unwrap()))
}

fn claim() -> Value {
    json!([{"name": "data", "persistentVolumeClaim": {"claimName": "claim"}}, {"name": "e", "emptyDir": {}}])
}

const PV: &str = "volumes/kubernetes.io~local-volume/pv-1";

#[tokio::test]
async fn only_a_local_volume_that_may_be_written_is_relabelled() {
    for read_only in [false, true] {
        let room = Room::new();
        let disk = tempfile::tempdir().unwrap();
        room.objects.set_claim("ns", "claim", bound_to(disk.path()));
        let mut volumes = claim();
        volumes[0]["persistentVolumeClaim"]["readOnly"] = read_only.into();
        let volumes = room.set_up(&pod(volumes)).await;
        let data = &volumes.mounted["data"];
        assert_eq!((data.read_only, data.relabel), (read_only, !read_only));
        room.volumes.tear_down(&UID.into()).await.unwrap();
    }
}

#[tokio::test]
async fn a_claim_that_binds_later_is_mounted_and_reported() {
    let room = Room::new();
    let disk = tempfile::tempdir().unwrap();
    let pod = pod(claim());
    let texts = |volumes: PodVolumes| volumes.problems.iter().map(ToString::to_string).collect::<Vec<_>>();
    let expected = |cause: &str| {
        format!(
            "Unable to attach or mount volumes: unmounted volumes=[data], unattached volumes=[], \
             failed to process volumes=[data]: error processing PVC ns/claim: {cause}"
        )
    };
    let absent = "failed to fetch PVC from API server: persistentvolumeclaims \"claim\" not found";
    let volumes = room.set_up(&pod).await;
    assert_eq!(volumes.mounted.keys().collect::<Vec<_>>(), ["e"]);
    assert_eq!(texts(volumes), [expected(absent)]);
    room.objects.set_claim("ns", "claim", ClaimState::Failed(ClaimError::NotBound));
    tokio::time::timeout(PATIENCE, room.volumes.changed()).await.unwrap();
    assert_eq!(texts(room.set_up(&pod).await), [expected("PVC is not bound")]);
    room.objects.set_claim("ns", "claim", bound_to(disk.path()));
    tokio::time::timeout(PATIENCE, room.volumes.changed()).await.unwrap();
    let volumes = room.set_up(&pod).await;
    assert_eq!(volumes.problems, []);
    assert_eq!(volumes.mounted["data"].host_path, room.host.at(PV));
    assert!(volumes.mounted["data"].relabel && !volumes.mounted["data"].read_only);
    let disk = ExternalVolume { dir: room.host.at(PV), unit: disk.path().to_owned(), driver: None };
    let external = ExternalVolumes::from([(pod.reference.clone(), [("data".to_owned(), disk)].into())]);
    assert_eq!(*room.volumes.external().borrow(), external);
    room.volumes.tear_down(&UID.into()).await.unwrap();
    assert!(room.volumes.external().borrow().is_empty());
    assert!(room.host.mounts.points().is_empty() && !room.host.at(PV).exists());
    assert!(!room.host.at("plugins/kubernetes.io~persistent-volume-claim").exists());
}

#[tokio::test]
async fn a_pod_keeps_its_volume_whatever_becomes_of_the_claim_or_the_api_server() {
    let room = Room::new();
    let disk = tempfile::tempdir().unwrap();
    room.objects.set_claim("ns", "claim", bound_to(disk.path()));
    let pod = pod(claim());
    assert_eq!(room.set_up(&pod).await.problems, []);
    room.objects.set_claim("ns", "claim", ClaimState::Failed(ClaimError::Deleted));
    assert_eq!(room.set_up(&pod).await.problems, []);
    // After a reboot, without the API server.
    let host = room.host;
    host.mounts.unmount(&host.at(PV)).unwrap();
    let objects = FakeObjects::new(WallClock::system());
    objects.set_claim("ns", "claim", ClaimState::Pending);
    let room = Room::on(host, objects, WallClock::system());
    let volumes = room.set_up(&pod).await;
    assert_eq!((volumes.problems.len(), &volumes.mounted["data"].host_path), (0, &room.host.at(PV)));
    assert_eq!(room.host.mounts.points(), [room.host.at(PV).canonicalize().unwrap()]);
}

#[tokio::test]
async fn a_path_that_appears_later_is_mounted_without_a_request() {
    let room = Room::new();
    let disk = tempfile::tempdir().unwrap();
    let path = disk.path().join("later");
    room.objects.set_claim("ns", "claim", bound_to(&path));
    let pod = pod(claim());
    let volumes = room.set_up(&pod).await;
    let text = volumes.problems[0].to_string();
    assert!(
        text.starts_with("MountVolume.NewMounter initialization failed for volume \"pv-1\" : path "),
        "{text}"
    );
    std::fs::create_dir(&path).unwrap();
    tokio::time::timeout(PATIENCE, room.volumes.changed()).await.unwrap();
    assert_eq!(room.set_up(&pod).await.problems, []);
}

/// How long callers wait for paths that do not respond, in these tests.
const SHORT: Duration = Duration::from_millis(500);

/// More pods than the threads of any one owner.
const PODS: usize = 6;

/// A room whose `threads` are impatient.
fn impatient(threads: VolumeThreads) -> Room {
    let clock = WallClock::system();
    Room::with_threads(Host::new(), FakeObjects::new(clock.clone()), clock, threads)
}

/// A pod of its own with these volumes.
fn other_pod(room: &Room, uid: &str, volumes: Value) -> Arc<AdmittedPod> {
    std::fs::create_dir_all(room.host.root.path().join("pods").join(uid)).unwrap();
    pod(volumes).edited(|pod| pod.metadata.uid = Some(uid.to_owned()))
}

fn nfs() -> Value {
    json!([{"name": "d", "nfs": {"server": "server", "path": "/export"}}])
}

fn part(uid: &str, host_path: PathBuf) -> SubPath {
    let (volume, container) = ("d".to_owned(), "c".to_owned());
    SubPath { uid: uid.into(), volume, host_path, container, index: 0, path: "x".into() }
}

/// A pod with what others use: an existing directory of the host, a local volume, and a part of a volume.
async fn start_another(room: &Room) {
    let disk = tempfile::tempdir().unwrap();
    room.objects.set_claim("ns", "claim", bound_to(disk.path()));
    let host = json!({"path": disk.path(), "type": "Directory"});
    let volumes = json!([{"name": "h", "hostPath": host}, {"name": "e", "emptyDir": {}},
        {"name": "data", "persistentVolumeClaim": {"claimName": "claim"}}]);
    let volumes = room.set_up(&other_pod(room, "another", volumes)).await;
    assert_eq!((volumes.problems, volumes.mounted.len()), (vec![], 3));
    room.volumes.mount_part(part("another", volumes.mounted["e"].host_path.clone())).await.unwrap();
    room.volumes.tear_down(&"another".into()).await.unwrap();
}

#[tokio::test]
async fn pods_on_a_dead_server_do_not_keep_others_from_starting() {
    let room = impatient(VolumeThreads { paths: PathWork::new(SHORT), ..VolumeThreads::default() });
    let mut mounted = Vec::new();
    for number in 0..PODS {
        let uid = format!("uid-{number}");
        let volumes = room.set_up(&other_pod(&room, &uid, nfs())).await;
        mounted.push((uid, volumes.mounted["d"].host_path.clone()));
    }
    let _lost = room.host.mounts.lose(mounted.iter().map(|(_, path)| path.canonicalize().unwrap()));
    for (uid, path) in &mounted {
        let error = room.volumes.mount_part(part(uid, path.clone())).await.unwrap_err();
        assert!(error.to_string().contains(" does not respond"), "{error}");
    }
    start_another(&room).await;
}

#[tokio::test]
async fn an_nfs_volume_of_a_dead_server_is_unmounted_by_force() {
    let room = impatient(VolumeThreads { unmounts: PathWork::new(SHORT), ..VolumeThreads::default() });
    let mut points = Vec::new();
    for number in 0..PODS {
        let volumes = room.set_up(&other_pod(&room, &format!("uid-{number}"), nfs())).await;
        points.push(volumes.mounted["d"].host_path.canonicalize().unwrap());
    }
    let _lost = room.host.mounts.lose(points.clone());
    let uids: Vec<PodUid> = (0..PODS).map(|number| format!("uid-{number}").into()).collect();
    let ended = uids.iter().map(|uid| room.volumes.tear_down(uid));
    let (ended, ()) = tokio::join!(futures::future::join_all(ended), start_another(&room));
    assert!(ended.iter().all(Result::is_ok), "{ended:?}");
    let mut forced = room.host.mounts.forced();
    forced.sort();
    assert_eq!(forced, points);
    assert!(points.iter().all(|point| !point.exists()) && room.host.mounts.points().is_empty());
}

#[tokio::test]
async fn an_nfs_volume_that_is_in_use_by_who_waits_for_its_server_is_unmounted_by_force() {
    let (paths, unmounts) = (PathWork::new(SHORT), PathWork::new(SHORT));
    let room = impatient(VolumeThreads { paths, unmounts, ..VolumeThreads::default() });
    let volumes = room.set_up(&pod(nfs())).await;
    let path = volumes.mounted["d"].host_path.canonicalize().unwrap();
    let _lost = room.host.mounts.lose([path.clone()]);
    room.volumes.mount_part(part(UID, path.clone())).await.unwrap_err();
    assert!(room.host.mounts.is_accessed(&path), "the daemon's own thread");
    let retried = async { while room.volumes.tear_down(&UID.into()).await.is_err() {} };
    tokio::time::timeout(PATIENCE, retried).await.unwrap();
    assert!(room.host.mounts.forced().contains(&path));
    assert!(room.host.mounts.points().is_empty() && !path.exists());
}

#[tokio::test]
async fn a_volume_that_responds_is_not_unmounted_by_force() {
    let room = Room::new();
    let volumes = room.set_up(&pod(nfs())).await;
    let path = volumes.mounted["d"].host_path.clone();
    room.volumes.mount_part(part(UID, path.clone())).await.unwrap();
    room.host.mounts.set_busy(true);
    room.volumes.tear_down(&UID.into()).await.unwrap_err();
    room.host.mounts.set_busy(false);
    room.volumes.tear_down(&UID.into()).await.unwrap();
    assert!(room.host.mounts.points().is_empty() && room.host.mounts.forced().is_empty() && !path.exists());
}

#[tokio::test]
async fn local_volumes_that_take_long_keep_only_their_own_pods_waiting() {
    let room = impatient(VolumeThreads { local_volumes: PathWork::new(SHORT), ..VolumeThreads::default() });
    let disks: Vec<_> = (0..PODS).map(|_| tempfile::tempdir().unwrap()).collect();
    let lost = room.host.mounts.lose(disks.iter().map(|disk| disk.path().to_owned()));
    for (number, disk) in disks.iter().enumerate() {
        room.objects.set_claim("ns", "claim", bound_to(disk.path()));
        let volumes = room.set_up(&other_pod(&room, &format!("uid-{number}"), claim())).await;
        assert_eq!(volumes.mounted.keys().collect::<Vec<_>>(), ["e"]);
    }
    start_another(&room).await;
    drop(lost);
}

#[path = "driver_tests.rs"]
mod drivers;

#[path = "driver_life_tests.rs"]
mod driver_life;
