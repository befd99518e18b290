//! Volumes of drivers from a worker's view: it waits for them and for nothing else, learns what became of them, and gets rid of them.

use std::path::Path;

use hostlet_csi::{PublishState, ReleaseError};
use tokio::task::AbortHandle;

use super::*;

/// The name of the CSI driver.
const DRIVER: &str = "csi.example.com";

fn with_driver(room: &Room, spec: Value) {
    let spec = Arc::new(serde_json::from_value(spec).unwrap());
    room.drivers.send_replace(KnownDrivers { specs: [(DRIVER.into(), spec)].into(), is_listed: true });
}

fn bound_to_driver(source: Value) -> ClaimState {
    let mut source = source;
    (source["driver"], source["volumeHandle"]) = (json!(DRIVER), json!("vol-1"));
    let spec = json!({"csi": source, "accessModes": ["ReadWriteOnce"]});
    let volume = json!({"metadata": {"name": "pv-1"}, "spec": spec});
    ClaimState::Bound(Arc::new(serde_json::from_value(volume).unwrap()))
}

fn data() -> Value {
    json!([{"name": "data", "persistentVolumeClaim": {"claimName": "claim"}}, {"name": "e", "emptyDir": {}}])
}

fn texts(volumes: &PodVolumes) -> Vec<String> {
    volumes.problems.iter().map(ToString::to_string).collect()
}

/// A room with a pod whose claim is bound to a volume of the driver.
fn room(source: Value) -> (Arc<Room>, Arc<AdmittedPod>) {
    let room = Room::new();
    room.objects.set_claim("ns", "claim", bound_to_driver(source));
    (Arc::new(room), pod(data()))
}

/// A worker that waits for the volumes of its pod.
struct Worker {
    answer: JoinSet<PodVolumes>,
    handle: AbortHandle,
}

impl Worker {
    fn is_waiting(&self) -> bool {
        !self.handle.is_finished()
    }

    async fn answer(mut self) -> PodVolumes {
        self.answer.join_next().await.unwrap().unwrap()
    }
}

fn start(room: &Arc<Room>, pod: &Arc<AdmittedPod>) -> Worker {
    let (room, pod) = (room.clone(), pod.clone());
    let mut answer = JoinSet::new();
    let handle = answer.spawn(async move { room.set_up(&pod).await });
    Worker { answer, handle }
}

async fn pass(seconds: u64) {
    tokio::time::sleep(Duration::from_secs(seconds)).await;
}

async fn changed(room: &Room) -> bool {
    tokio::time::timeout(Duration::from_secs(1), room.volumes.changed()).await.is_ok()
}

#[tokio::test(start_paused = true)]
async fn a_worker_waits_while_a_driver_works() {
    let (room, pod) = room(json!({}));
    let waiting = start(&room, &pod);
    pass(100).await;
    assert!(waiting.is_waiting());
    assert_eq!(room.csi.requests().iter().map(|it| it.spec_name.as_str()).collect::<Vec<_>>(), ["pv-1"]);
    room.csi.set(&UID.into(), "pv-1", PublishState::Working);
    pass(1).await;
    assert!(waiting.is_waiting());
    room.csi.published(&UID.into(), "pv-1", Path::new("/mnt/pv-1"));
    let volumes = waiting.answer().await;
    assert_eq!((texts(&volumes).len(), volumes.mounted.len()), (0, 2));
    let data = &volumes.mounted["data"];
    assert_eq!((data.host_path.to_str(), data.read_only, data.relabel), (Some("/mnt/pv-1"), false, true));
    let external = room.volumes.external().borrow().clone();
    let driver =
        hostlet_pod::DriverVolume { driver: DRIVER.into(), handle: "vol-1".to_owned(), is_block: false };
    let unit = "csi.example.com^vol-1".into();
    let expected = ExternalVolume { dir: "/mnt/pv-1".into(), unit, driver: Some(driver) };
    assert_eq!(external[&pod.reference]["data"], expected);
    assert!(!changed(&room).await, "the worker knows");
    // Again in the next sync, which is answered at once.
    assert_eq!(room.set_up(&pod).await.mounted.len(), 2);
    assert_eq!(room.csi.requests().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_failure_is_reported_and_what_becomes_of_it_wakes_the_worker() {
    let (room, pod) = room(json!({}));
    let text = "MountVolume.SetUp failed for volume \"pv-1\" : rpc error: code = Internal desc = no disk";
    let waiting = start(&room, &pod);
    pass(1).await;
    room.csi.set(&UID.into(), "pv-1", PublishState::Failed(text.to_owned()));
    let volumes = waiting.answer().await;
    assert_eq!(texts(&volumes), [text]);
    assert_eq!(volumes.mounted.keys().collect::<Vec<_>>(), ["e"]);
    // The same again is no news.
    room.csi.set(&UID.into(), "pv-1", PublishState::Failed(text.to_owned()));
    assert!(!changed(&room).await);
    room.csi.set(&UID.into(), "pv-1", PublishState::Failed("other".to_owned()));
    assert!(changed(&room).await);
    assert_eq!(texts(&room.set_up(&pod).await), ["other"]);
    room.csi.published(&UID.into(), "pv-1", Path::new("/mnt/pv-1"));
    assert!(changed(&room).await);
    assert!(room.set_up(&pod).await.is_ready("data"));
}

#[tokio::test(start_paused = true)]
async fn a_node_without_room_for_a_volume_rejects_its_pod() {
    let (room, pod) = room(json!({}));
    let waiting = start(&room, &pod);
    pass(1).await;
    room.csi.set(&UID.into(), "pv-1", PublishState::Exhausted);
    let volumes = waiting.answer().await;
    let expected = "Node has reached its volume attachment limit, rejecting pod. unmounted volumes=[data], unattached \
                    volumes=[data], failed to process volumes=[]: context deadline exceeded";
    assert_eq!(texts(&volumes), [expected]);
    assert!(volumes.problems[0].rejects_pod());
}

#[tokio::test(start_paused = true)]
async fn the_secrets_of_a_persistent_volume_are_named_until_its_pod_is_torn_down() {
    let secret = json!({"name": "s", "namespace": "drivers"});
    let (room, pod) = room(json!({"nodeExpandSecretRef": secret}));
    room.csi.published(&UID.into(), "pv-1", Path::new("/mnt/pv-1"));
    room.set_up(&pod).await;
    let needs = room.volumes.needs();
    let expected = ObjectRef::secret("s", "drivers");
    assert_eq!(needs.borrow()[&PodUid::from(UID)].objects.iter().collect::<Vec<_>>(), [&expected]);
    room.volumes.tear_down(&UID.into()).await.unwrap();
    assert!(needs.borrow().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_worker_does_not_wait_for_ever_and_learns_of_a_late_success() {
    let (room, pod) = room(json!({}));
    let began = tokio::time::Instant::now();
    let volumes = room.set_up(&pod).await;
    assert!(began.elapsed() < DEADLINE, "{:?}", began.elapsed());
    let expected = "Unable to attach or mount volumes: unmounted volumes=[data], unattached volumes=[], failed to process \
                    volumes=[]: context deadline exceeded";
    assert_eq!(texts(&volumes), [expected]);
    room.csi.published(&UID.into(), "pv-1", Path::new("/mnt/pv-1"));
    assert!(changed(&room).await);
}

#[tokio::test(start_paused = true)]
async fn a_worker_that_gives_up_is_told_when_the_volume_is_there() {
    let (room, pod) = room(json!({}));
    assert!(tokio::time::timeout(Duration::from_secs(5), room.set_up(&pod)).await.is_err());
    room.csi.published(&UID.into(), "pv-1", Path::new("/mnt/pv-1"));
    assert!(changed(&room).await);
}

#[tokio::test(start_paused = true)]
async fn other_volumes_are_kept_up_to_date_and_can_be_torn_down_while_a_driver_works() {
    let (room, _) = room(json!({}));
    room.objects.put(ObjectKind::ConfigMap, "ns", "cm", &[("k", "one")]);
    let mut volumes = data();
    volumes.as_array_mut().unwrap().extend(config_map("cm").as_array().unwrap().clone());
    let pod = pod(volumes);
    let waiting = start(&room, &pod);
    pass(1).await;
    assert_eq!(room.host.read(FILE).unwrap(), "one");
    room.objects.put(ObjectKind::ConfigMap, "ns", "cm", &[("k", "two")]);
    pass(1).await;
    assert_eq!(room.host.read(FILE).unwrap(), "two");
    assert!(waiting.is_waiting());
    room.volumes.tear_down(&UID.into()).await.unwrap();
    assert_eq!(room.csi.released(), [UID.into()]);
    assert!(!room.host.at("volumes/kubernetes.io~configmap/v").exists());
}

#[tokio::test(start_paused = true)]
async fn a_problem_of_another_volume_is_reported_while_a_driver_works() {
    let (room, _) = room(json!({}));
    let mut volumes = data();
    volumes.as_array_mut().unwrap().extend(config_map("cm").as_array().unwrap().clone());
    let volumes = room.set_up(&pod(volumes)).await;
    assert_eq!(texts(&volumes), ["MountVolume.SetUp failed for volume \"v\" : configmap \"cm\" not found"]);
    assert_eq!(room.csi.requests().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_secret_of_the_volume_is_found_once_the_claim_is_bound() {
    let source = json!({"nodeStageSecretRef": {"name": "s", "namespace": "storage"}});
    let (room, pod) = room(source.clone());
    room.objects.set_claim("ns", "claim", ClaimState::Failed(ClaimError::NotBound));
    let volumes = room.set_up(&pod).await;
    assert!(texts(&volumes)[0].ends_with("PVC is not bound"));
    assert_eq!(room.objects.watchers(ObjectKind::Secret, "storage", "s"), 0);
    room.objects.set_claim("ns", "claim", bound_to_driver(source));
    assert!(changed(&room).await);
    let text = texts(&room.set_up(&pod).await).concat();
    assert!(text.contains("fetching NodeStageSecretRef storage/s failed"), "{text}");
    assert!(room.csi.requests().is_empty());
    room.objects.put(ObjectKind::Secret, "storage", "s", &[("key", "value")]);
    assert!(changed(&room).await);
    assert_eq!(room.csi.requests()[0].stage_secrets.0["key"], "value");
}

#[tokio::test(start_paused = true)]
async fn tokens_are_renewed_and_given_to_the_driver() {
    let (room, pod) = room(json!({}));
    let requests = json!([{"audience": "vault", "expirationSeconds": 600}]);
    with_driver(&room, json!({"tokenRequests": requests, "requiresRepublish": true}));
    let waiting = start(&room, &pod);
    pass(1).await;
    let token = |number: usize| {
        let request = &room.csi.requests()[number];
        assert!(request.is_republished);
        request.pod_attributes["csi.storage.k8s.io/serviceAccount.tokens"].clone()
    };
    assert!(
        token(0)
            .starts_with("{\"vault\":{\"token\":\"token-1\",\"expirationTimestamp\":\"2026-11-21T07:10:0")
    );
    // Also while it works.
    assert_eq!(room.objects.tokens(), 1);
    room.csi.published(&UID.into(), "pv-1", Path::new("/mnt/pv-1"));
    assert_eq!(waiting.answer().await.problems, []);
    pass(500).await;
    assert!(token(1).contains("token-2"));
    // The volume stays while no new token is issued, and the problem is known.
    room.objects.fail_tokens(Some(ObjectError::Unavailable("connection refused".into())));
    pass(700).await;
    let volumes = room.set_up(&pod).await;
    assert!(volumes.is_ready("data"));
    assert!(texts(&volumes)[0].contains("connection refused"), "{volumes:?}");
}

#[tokio::test(start_paused = true)]
async fn after_a_reboot_a_driver_gets_the_stored_token_until_it_expires() {
    let base: Timestamp = "2026-11-21T07:00:00Z".parse().unwrap();
    let (room, pod) = room(json!({}));
    let requests = json!([{"audience": "vault", "expirationSeconds": 3600}]);
    with_driver(&room, json!({"tokenRequests": requests, "requiresRepublish": true}));
    let half = Duration::from_secs(1800);
    let stored = Token { value: "stored".to_owned(), issued: base - half, expires: base + half };
    room.objects.store_token(stored);
    room.objects.fail_tokens(Some(ObjectError::Unavailable("connection refused".into())));
    let waiting = start(&room, &pod);
    pass(1).await;
    let needs = room.volumes.needs().borrow()[&PodUid::from(UID)].clone();
    assert_eq!(needs.tokens.first().unwrap().audiences, ["vault"], "so that it is stored");
    room.csi.published(&UID.into(), "pv-1", Path::new("/mnt/pv-1"));
    assert_eq!(waiting.answer().await.problems, []);
    let tokens = &room.csi.requests()[0].pod_attributes["csi.storage.k8s.io/serviceAccount.tokens"];
    assert!(tokens.contains("\"stored\""), "{tokens}");
    // Then the pod keeps its volume, and says why the driver gets no other one.
    pass(1800).await;
    let volumes = room.set_up(&pod).await;
    assert!(volumes.is_ready("data"));
    let text = texts(&volumes).concat();
    assert!(text.contains("the token has expired at 2026-11-21T07:30:00Z, and no new one can be requested: connection refused"), "{text}");
}

#[tokio::test(start_paused = true)]
async fn a_driver_object_that_appears_changes_what_is_wanted() {
    let (room, _) = room(json!({}));
    let pod = pod(json!([{"name": "i", "csi": {"driver": DRIVER}}]));
    let text = texts(&room.set_up(&pod).await).concat();
    assert!(text.ends_with("not supported by driver csi.example.com (no CSIDriver object)"), "{text}");
    with_driver(&room, json!({"volumeLifecycleModes": ["Ephemeral"]}));
    assert!(changed(&room).await);
    assert!(room.csi.requests()[0].is_ephemeral);
}

#[tokio::test(start_paused = true)]
async fn an_unknown_list_of_drivers_is_waited_for() {
    let (room, pod) = room(json!({}));
    room.drivers.send_replace(KnownDrivers::default());
    let _waiting = start(&room, &pod);
    pass(5).await;
    assert!(room.csi.requests().is_empty());
    with_driver(&room, json!({"attachRequired": false}));
    pass(1).await;
    assert!(!room.csi.requests()[0].is_attached);
}

#[tokio::test(start_paused = true)]
async fn a_volume_that_cannot_be_unpublished_keeps_the_others() {
    let (room, pod) = room(json!({}));
    room.csi.published(&UID.into(), "pv-1", Path::new("/mnt/pv-1"));
    room.set_up(&pod).await;
    let refusal = ReleaseError::Volume { volume: "pv-1".into(), cause: "busy".into() };
    room.csi.refuse(Some(refusal));
    let error = room.volumes.tear_down(&UID.into()).await.unwrap_err();
    assert_eq!(error.to_string(), "UnmountVolume.TearDown failed for volume \"pv-1\" : busy");
    assert!(room.host.at("volumes/kubernetes.io~empty-dir/e").exists());
    room.csi.refuse(None);
    room.volumes.tear_down(&UID.into()).await.unwrap();
    assert!(!room.host.at("volumes/kubernetes.io~empty-dir/e").exists());
    assert_eq!(room.csi.released().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_claim_used_twice_is_published_once() {
    let (room, _) = room(json!({}));
    let source = |read_only: bool| json!({"claimName": "claim", "readOnly": read_only});
    let pod = pod(json!([{"name": "a", "persistentVolumeClaim": source(false)},
        {"name": "b", "persistentVolumeClaim": source(true)}]));
    room.csi.published(&UID.into(), "pv-1", Path::new("/mnt/pv-1"));
    let volumes = room.set_up(&pod).await;
    assert_eq!(room.csi.requests().len(), 1);
    assert!(!volumes.mounted["a"].read_only && volumes.mounted["b"].read_only);
}

#[tokio::test(start_paused = true)]
async fn a_device_of_a_driver_is_where_containers_find_it_and_gone_before_it_is_released() {
    let (room, _) = room(json!({}));
    let spec = json!({"csi": {"driver": DRIVER, "volumeHandle": "vol-1"}, "volumeMode": "Block"});
    let volume = json!({"metadata": {"name": "pv-1"}, "spec": spec});
    let volume = Arc::new(serde_json::from_value(volume).unwrap());
    room.objects.set_claim("ns", "claim", ClaimState::Bound(volume));
    let mut volumes = data();
    volumes[0]["persistentVolumeClaim"]["readOnly"] = json!(true);
    let pod = pod(volumes);
    // The device cannot be put in place at first.
    let published = room.host.root.path().join("published");
    room.host.mounts.set_busy(true);
    room.csi.published(&UID.into(), "pv-1", &published);
    std::fs::write(&published, "").unwrap();
    let text = texts(&room.set_up(&pod).await).concat();
    assert!(text.starts_with("MapVolume.MapBlockVolume failed for volume \"pv-1\" : "), "{text}");
    room.host.mounts.set_busy(false);
    tokio::time::timeout(PATIENCE, room.volumes.changed()).await.unwrap();
    let volumes = room.set_up(&pod).await;
    assert_eq!(volumes.problems, []);
    let device = &volumes.devices["data"];
    let link = room.host.at("volumeDevices/kubernetes.io~csi/pv-1");
    assert_eq!((device.host_path.clone(), device.read_only), (link.clone(), true));
    assert_eq!(std::fs::read_link(&link).unwrap(), published.canonicalize().unwrap());
    room.csi.refuse(Some(ReleaseError::Ended));
    room.volumes.tear_down(&UID.into()).await.unwrap_err();
    assert!(room.host.mounts.points().is_empty() && link.symlink_metadata().is_err());
    room.csi.refuse(None);
    room.volumes.tear_down(&UID.into()).await.unwrap();
}

#[tokio::test]
async fn without_a_daemon_a_published_volume_is_left_and_its_driver_named() {
    let host = Host::new();
    let dir = host.at("volumes/kubernetes.io~csi/pv-1");
    std::fs::create_dir_all(dir.join("mount")).unwrap();
    std::fs::write(dir.join("vol_data.json"), "{\"driverName\":\"csi.example.com\",\"volumeHandle\":\"v\"}")
        .unwrap();
    host.mounts.add(&dir.join("mount").canonicalize().unwrap(), "ext4");
    let mounts: Arc<dyn Mounts> = Arc::new(host.mounts.clone());
    let tear_down = async || {
        let done = crate::tear_down(host.root.path(), &UID.into(), &mounts, &VolumeThreads::default()).await;
        done.map_err(|error| hostlet_base::error_chain(&error))
    };
    let expected = format!(
        "UnmountVolume.TearDown failed for volume \"pv-1\": {} is published by the CSI driver csi.example.com, and only its \
         driver can unpublish it",
        dir.display()
    );
    assert_eq!(tear_down().await, Err(expected));
    assert!(dir.join("vol_data.json").exists() && host.mounts.points().len() == 1);
    host.mounts.unmount(&dir.join("mount")).unwrap();
    std::fs::write(dir.join("mount/written"), "precious").unwrap();
    assert!(tear_down().await.is_err() && dir.join("mount/written").exists());
    std::fs::remove_file(dir.join("mount/written")).unwrap();
    assert_eq!(tear_down().await, Ok(()));
    assert!(!dir.exists());
    // A device of which it is not known what it is.
    let link = host.at("volumeDevices/kubernetes.io~csi/pv-2");
    std::fs::create_dir_all(link.parent().unwrap()).unwrap();
    std::os::unix::fs::symlink(host.root.path(), &link).unwrap();
    assert!(
        tear_down()
            .await
            .unwrap_err()
            .contains("the CSI driver (unknown: its vol_data.json is gone or damaged)")
    );
    std::fs::remove_file(&link).unwrap();
    std::os::unix::fs::symlink(host.at("gone"), &link).unwrap();
    assert_eq!(tear_down().await, Ok(()));
    assert!(link.symlink_metadata().is_err());
}
