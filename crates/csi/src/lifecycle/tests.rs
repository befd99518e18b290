//! Tests of the life of volumes: what drivers are asked, in which order, and what is left, whatever fails.

use std::collections::BTreeSet;
use std::fs;
use std::sync::atomic::Ordering;
use std::time::Duration;

use hostlet_host::PodDirs;
use tokio::time::sleep;
use tonic::Code;

use super::testing::{DRIVER, Host, desired, id};
use crate::fake::{Call, Method, Outcome};
use crate::{AccessMode, Form, NodeCapabilities, NodeService, Publish, PublishState, ephemeral_handle};

const MINUTE: Duration = Duration::from_secs(60);

#[tokio::test(start_paused = true)]
async fn a_volume_is_staged_once_and_published_for_each_pod() {
    let host = Host::new();
    host.want(desired("a", 1)).await;
    let path = host.published("a", "pv-1").await;
    assert_eq!(path, host.root().join("pods/a/volumes/kubernetes.io~csi/pv-1/mount"));
    host.want(desired("b", 1)).await;
    host.published("b", "pv-1").await;
    assert_eq!(
        host.driver.lines(),
        ["NodeStageVolume vol-1", "NodePublishVolume vol-1", "NodePublishVolume vol-1"]
    );
    let Call::Publish(call) = host.driver.called(Method::Publish, 1).await else { panic!() };
    let staging = host
        .root()
        .join(format!("plugins/kubernetes.io/csi/{DRIVER}/{}/globalmount", id("vol-1").directory_name()));
    assert_eq!((call.staging, call.target), (Some(staging.clone()), path.clone()));
    let data = fs::read_to_string(path.with_file_name("vol_data.json")).unwrap();
    let attachment = id("vol-1").attachment_name("node-1");
    let expected = format!(
        "{{\"attachmentID\":\"{attachment}\",\"driverName\":\"{DRIVER}\",\"nodeName\":\"node-1\",\"specVolID\":\"pv-1\",\
         \"volumeHandle\":\"vol-1\",\"volumeLifecycleMode\":\"Persistent\"}}\n"
    );
    assert_eq!(data, expected);

    host.release("a").await.unwrap();
    assert!(staging.with_file_name("vol_data.json").exists());
    sleep(MINUTE).await;
    assert_eq!(host.driver.staged().len(), 1);
    host.release("b").await.unwrap();
    sleep(MINUTE).await;
    assert_eq!(
        host.driver.lines()[3..],
        ["NodeUnpublishVolume vol-1", "NodeUnpublishVolume vol-1", "NodeUnstageVolume vol-1"]
    );
    assert_eq!((host.remains(), host.rows()), (BTreeSet::new(), Vec::new()));
    assert_eq!(host.driver.violations(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_volume_that_another_kubelet_has_unstaged_is_staged_again() {
    let mut host = Host::new();
    host.want(desired("a", 1)).await;
    let target = host.published("a", "pv-1").await;
    let staging = host.driver.staged()["vol-1"].clone();
    host.kill().await;
    // The other one ends the pod.
    host.driver.unpublish("vol-1", &target).await.unwrap();
    host.driver.unstage("vol-1", &staging).await.unwrap();
    fs::remove_dir_all(staging.parent().unwrap()).unwrap();
    host.start();
    host.want(desired("a", 1)).await;
    host.want(desired("b", 1)).await;
    host.published("b", "pv-1").await;
    assert_eq!(host.driver.violations(), [""; 0]);
    assert_eq!(host.driver.lines()[4], "NodeStageVolume vol-1");
}

#[tokio::test(start_paused = true)]
async fn a_driver_without_stage_is_not_asked_to() {
    let host = Host::with(NodeCapabilities::default());
    host.want(desired("a", 1)).await;
    host.published("a", "pv-1").await;
    let inline = Publish { is_ephemeral: true, ..desired("a", 2) };
    host.want(inline).await;
    host.published("a", "pv-2").await;
    host.release("a").await.unwrap();
    sleep(MINUTE).await;
    let lines = host.driver.lines();
    assert!(lines.iter().all(|line| !line.contains("tage")), "{lines:?}");
    assert_eq!((host.remains(), host.rows()), (BTreeSet::new(), Vec::new()));
}

#[tokio::test(start_paused = true)]
async fn nothing_is_asked_before_the_volume_is_reported_in_use_and_attached() {
    let host = Host::new();
    let name = id("vol-1").unique_name();
    host.want(Publish { is_attached: true, ..desired("a", 1) }).await;
    let mut in_use = host.volumes().in_use();
    in_use.wait_for(|names| names.contains(&name)).await.unwrap();
    let text = host.failed("a", "pv-1").await;
    let expected = "MountVolume.WaitForAttach failed for volume \"pv-1\" : Volume has not been added to the list of \
                    VolumesInUse in the node's volume status";
    assert_eq!(text, expected);
    assert_eq!(host.driver.lines(), [""; 0]);
    host.cluster.reported.send_modify(|names| {
        names.insert(name.clone());
    });
    let expected =
        "MountVolume.WaitForAttach failed for volume \"pv-1\" : Volume not attached according to node status";
    host.becomes("a", "pv-1", |state| *state == PublishState::Failed(expected.to_owned())).await;
    assert_eq!(host.driver.lines(), [""; 0]);
    host.cluster.attached.send_modify(|names| {
        names.insert(name.clone());
    });
    host.published("a", "pv-1").await;
    let Call::Stage(call) = host.driver.called(Method::Stage, 1).await else { panic!() };
    assert_eq!(call.publish_context["device"], "/dev/x");

    // It stays in use until it is unstaged.
    host.driver.next(Method::Unstage, [Outcome::Fails(Code::Internal), Outcome::Hangs]);
    host.release("a").await.unwrap();
    host.driver.called(Method::Unstage, 2).await;
    assert!(in_use.borrow().contains(&name));
    host.driver.release();
    in_use.wait_for(|names| names.is_empty()).await.unwrap();
    assert_eq!(host.driver.violations(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_node_without_room_is_reported_as_such_and_may_have_room_later() {
    let host = Host::new();
    let name = id("vol-1").unique_name();
    host.cluster.is_full.store(true, Ordering::Relaxed);
    host.cluster.reported.send_modify(|names| {
        names.insert(name.clone());
    });
    host.want(Publish { is_attached: true, ..desired("a", 1) }).await;
    host.becomes("a", "pv-1", |state| *state == PublishState::Exhausted).await;
    let error = host.volumes().views().remove(0).last_error.unwrap();
    assert!(
        error.ends_with(&format!("Node has insufficient volume attachment capacity for: {name}")),
        "{error}"
    );
    host.cluster.is_full.store(false, Ordering::Relaxed);
    host.cluster.attached.send_modify(|names| {
        names.insert(name);
    });
    host.published("a", "pv-1").await;
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_goes_does_not_wait_for_an_attachment() {
    let host = Host::new();
    host.want(Publish { is_attached: true, ..desired("a", 1) }).await;
    sleep(MINUTE).await;
    host.release("a").await.unwrap();
    sleep(MINUTE).await;
    assert_eq!((host.driver.lines(), host.rows()), (Vec::new(), Vec::new()));
    assert!(host.volumes().in_use().borrow().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_volume_that_need_not_be_attached_after_all_waits_no_longer() {
    let host = Host::new();
    // The CSIDriver object is not known yet.
    host.want(Publish { is_attached: true, ..desired("a", 1) }).await;
    sleep(Duration::from_secs(1)).await;
    let began = tokio::time::Instant::now();
    host.want(desired("a", 1)).await;
    host.published("a", "pv-1").await;
    assert!(began.elapsed() < Duration::from_secs(1));
    assert!(host.volumes().in_use().borrow().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_volume_that_is_used_is_not_attached_because_an_object_is_deleted() {
    let host = Host::new();
    host.want(desired("a", 1)).await;
    host.published("a", "pv-1").await;
    host.want(Publish { is_attached: true, ..desired("a", 1) }).await;
    host.want(Publish { is_attached: true, ..desired("b", 1) }).await;
    host.published("b", "pv-1").await;
    assert!(host.volumes().in_use().borrow().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_driver_that_is_not_there_delays_only_its_volumes() {
    let host = Host::new();
    host.deregister();
    host.want(desired("a", 1)).await;
    let text = host.failed("a", "pv-1").await;
    let expected = "MountVolume.MountDevice failed for volume \"pv-1\" : kubernetes.io/csi: attacher.MountDevice failed to \
                    create newCsiDriverClient: driver name csi.example.com not found in the list of registered CSI drivers";
    assert_eq!(text, expected);
    host.register();
    host.published("a", "pv-1").await;
    host.deregister();
    let error = host.release("a").await.unwrap_err().to_string();
    assert!(
        error.contains("UnmountVolume.TearDown failed for volume \"pv-1\" : kubernetes.io/csi: Unmounter"),
        "{error}"
    );
    assert_eq!(host.driver.published().len(), 1);
    host.register();
    host.release("a").await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_lost_answer_leads_to_the_same_call_again_and_a_refusal_leaves_nothing() {
    let host = Host::new();
    host.driver.next(Method::Stage, [Outcome::Lost(Code::DeadlineExceeded)]);
    host.driver.next(Method::Publish, [Outcome::Lost(Code::Unavailable)]);
    host.want(desired("a", 1)).await;
    let text = host.failed("a", "pv-1").await;
    assert!(
        text.starts_with(
            "MountVolume.MountDevice failed for volume \"pv-1\" : rpc error: code = DeadlineExceeded"
        ),
        "{text}"
    );
    host.published("a", "pv-1").await;
    host.release("a").await.unwrap();
    sleep(MINUTE).await;
    assert_eq!(host.driver.lines().len(), 6);

    host.driver.always(Method::Stage, Outcome::Fails(Code::InvalidArgument));
    host.want(desired("b", 2)).await;
    host.failed("b", "pv-2").await;
    assert_eq!(host.remains(), BTreeSet::new());
    host.release("b").await.unwrap();
    sleep(MINUTE).await;
    assert_eq!(host.rows(), [""; 0]);
    // Nothing was done, so nothing is taken back.
    assert!(!host.driver.lines().iter().any(|line| line.contains("Un") && line.contains("vol-2")));
    assert_eq!(host.driver.violations(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn what_may_be_staged_is_unstaged() {
    let host = Host::new();
    host.driver.always(Method::Stage, Outcome::Lost(Code::DeadlineExceeded));
    host.want(desired("a", 1)).await;
    host.failed("a", "pv-1").await;
    host.release("a").await.unwrap();
    sleep(MINUTE).await;
    assert_eq!(host.driver.lines().last().unwrap(), "NodeUnstageVolume vol-1");
    assert_eq!((host.driver.staged().len(), host.remains(), host.rows()), (0, BTreeSet::new(), Vec::new()));
}

#[tokio::test(start_paused = true)]
async fn a_volume_of_one_pod_waits_until_the_other_pod_is_gone() {
    let host = Host::new();
    let only = |pod| Publish { access_mode: AccessMode::ReadWriteOncePod, ..desired(pod, 1) };
    host.want(only("a")).await;
    host.published("a", "pv-1").await;
    host.want(only("b")).await;
    let text = host.failed("b", "pv-1").await;
    assert!(text.ends_with("ReadWriteOncePod access mode and is already in use by another pod"), "{text}");
    host.release("a").await.unwrap();
    host.published("b", "pv-1").await;
    assert_eq!(host.driver.violations(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_restarted_daemon_asks_for_nothing_again() {
    let mut host = Host::new();
    host.want(desired("a", 1)).await;
    host.published("a", "pv-1").await;
    let before = host.driver.lines();
    host.restart().await;
    sleep(MINUTE).await;
    host.want(desired("a", 1)).await;
    host.published("a", "pv-1").await;
    assert_eq!(host.driver.lines(), before);
    // Nor does one that takes another's place with the files only: it asks once more, as it cannot know.
    host.kill().await;
    host.store.retain(hostlet_store::Table::CsiVolumes, |_| false);
    host.start();
    host.want(desired("a", 1)).await;
    host.published("a", "pv-1").await;
    host.release("a").await.unwrap();
    sleep(MINUTE).await;
    assert_eq!(
        host.driver.lines()[2..],
        [
            "NodeStageVolume vol-1",
            "NodePublishVolume vol-1",
            "NodeUnpublishVolume vol-1",
            "NodeUnstageVolume vol-1"
        ]
    );
    assert_eq!((host.remains(), host.rows()), (BTreeSet::new(), Vec::new()));
}

#[tokio::test(start_paused = true)]
async fn a_volume_that_only_lives_in_a_pod_is_not_in_use_whoever_published_it() {
    let mut host = Host::new();
    let id = id(&ephemeral_handle(&"a".into(), "pv-1"));
    host.want(Publish { id, is_ephemeral: true, ..desired("a", 1) }).await;
    host.published("a", "pv-1").await;
    host.kill().await;
    host.store.retain(hostlet_store::Table::CsiVolumes, |_| false);
    host.start();
    assert!(host.volumes().in_use().borrow().is_empty());
    host.release("a").await.unwrap();
    assert!(host.driver.published().is_empty());
}

#[tokio::test(start_paused = true)]
async fn after_a_reboot_volumes_are_staged_and_published_again() {
    let mut host = Host::new();
    host.want(desired("a", 1)).await;
    host.published("a", "pv-1").await;
    host.reboot().await;
    host.want(desired("a", 1)).await;
    host.published("a", "pv-1").await;
    assert_eq!(host.driver.lines()[2..], ["NodeStageVolume vol-1", "NodePublishVolume vol-1"]);
    assert_eq!(host.driver.violations(), [""; 0]);
}

/// kubernetes/kubernetes#85476, #121937, #101791: the kubelet dies between unpublish and unstage.
#[tokio::test(start_paused = true)]
async fn a_daemon_that_died_before_unstage_unstages_when_it_is_back() {
    let mut host = Host::new();
    host.want(Publish { is_attached: true, ..desired("a", 1) }).await;
    let name = id("vol-1").unique_name();
    host.cluster.reported.send_modify(|names| {
        names.insert(name.clone());
    });
    host.cluster.attached.send_modify(|names| {
        names.insert(name.clone());
    });
    host.published("a", "pv-1").await;
    host.driver.next(Method::Unstage, [Outcome::Hangs]);
    host.release("a").await.unwrap();
    host.driver.called(Method::Unstage, 1).await;
    host.kill().await;
    // Somebody, or a full disk, has taken the file (#101911, #112012).
    let data = host.remains().into_iter().find(|path| path.ends_with("vol_data.json")).unwrap();
    fs::remove_file(host.root().join(data)).unwrap();
    host.deregister();
    host.start();
    assert!(host.volumes().in_use().borrow().contains(&name));
    sleep(60 * MINUTE).await;
    // The driver comes late (#91758).
    assert_eq!(host.driver.staged().len(), 1);
    host.register();
    sleep(MINUTE).await;
    assert_eq!((host.driver.staged().len(), host.remains(), host.rows()), (0, BTreeSet::new(), Vec::new()));
    assert!(host.volumes().in_use().borrow().is_empty());
}

/// kubernetes/kubernetes#111933: the pod's directory is gone while the driver was away.
#[tokio::test(start_paused = true)]
async fn the_volume_of_a_pod_whose_directory_is_gone_is_taken_back() {
    let mut host = Host::new();
    host.want(desired("a", 1)).await;
    host.published("a", "pv-1").await;
    host.kill().await;
    fs::remove_dir_all(PodDirs::new(&host.root(), &"a".into()).unwrap().path()).unwrap();
    host.driver.next(Method::Unpublish, [Outcome::Fails(Code::Internal)]);
    // The mount went with the directory.
    host.start();
    sleep(10 * MINUTE).await;
    assert_eq!(host.driver.lines().last().unwrap(), "NodeUnstageVolume vol-1");
    assert_eq!((host.remains(), host.rows()), (BTreeSet::new(), Vec::new()));
}

#[tokio::test(start_paused = true)]
async fn a_call_that_hangs_delays_no_other_volume_and_can_be_left() {
    let host = Host::new();
    host.driver.next(Method::Publish, [Outcome::Hangs]);
    host.want(desired("a", 1)).await;
    host.driver.called(Method::Publish, 1).await;
    host.want(desired("a", 2)).await;
    host.published("a", "pv-2").await;
    host.want(desired("b", 3)).await;
    host.published("b", "pv-3").await;
    host.release("b").await.unwrap();
    // The call ends at its deadline; then the volume is taken back.
    host.release("a").await.unwrap();
    sleep(MINUTE).await;
    assert_eq!((host.driver.published().len(), host.driver.staged().len()), (0, 0));
    assert_eq!(host.driver.violations(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn tokens_reach_a_driver_that_wants_them_again_and_no_other() {
    let host = Host::new();
    let with = |n: u32, token: &str, is_republished| {
        let pod_attributes = [("token".to_owned(), token.to_owned())].into();
        Publish { is_republished, pod_attributes, ..desired("a", n) }
    };
    host.want(with(1, "old", true)).await;
    host.want(with(2, "old", false)).await;
    host.published("a", "pv-1").await;
    host.published("a", "pv-2").await;
    host.want(with(1, "new", true)).await;
    host.want(with(2, "new", false)).await;
    let Call::Publish(again) = host.driver.called(Method::Publish, 3).await else { panic!() };
    assert_eq!((again.handle.as_str(), again.context["token"].as_str()), ("vol-1", "new"));
    // A failure later takes nothing away (kubernetes/kubernetes#121271).
    host.driver.always(Method::Publish, Outcome::Fails(Code::Internal));
    sleep(10 * MINUTE).await;
    assert!(matches!(host.becomes("a", "pv-1", |_| true).await, PublishState::Published(_)));
    assert_eq!(host.driver.published().len(), 2);
    let publishes = host.driver.lines().iter().filter(|line| **line == "NodePublishVolume vol-2").count();
    assert_eq!(publishes, 1);
}

#[tokio::test(start_paused = true)]
async fn a_driver_that_lies_about_an_unmount_is_asked_again() {
    let host = Host::new();
    host.want(desired("a", 1)).await;
    let path = host.published("a", "pv-1").await;
    // It is mounted a second time.
    host.mount_again(&path);
    let error = host.release("a").await.unwrap_err().to_string();
    assert!(error.contains("something is still mounted at"), "{error}");
    assert!(path.with_file_name("vol_data.json").exists());
    host.unmount(&path);
    host.release("a").await.unwrap();
    assert!(!path.parent().unwrap().exists());
}

#[tokio::test(start_paused = true)]
async fn a_block_device_has_upstreams_paths() {
    let host = Host::new();
    host.want(Publish { form: Form::Block, ..desired("a", 1) }).await;
    let path = host.published("a", "pv-1").await;
    let devices = host.root().join("plugins/kubernetes.io/csi/volumeDevices");
    assert_eq!(path, devices.join("publish/pv-1/a"));
    assert_eq!(host.driver.staged()["vol-1"], devices.join("staging/pv-1"));
    assert!(devices.join("pv-1/data/vol_data.json").exists());
    host.release("a").await.unwrap();
    sleep(MINUTE).await;
    assert_eq!((host.remains(), host.rows()), (BTreeSet::new(), Vec::new()));
    assert_eq!(fs::read_dir(devices).map(Iterator::count).unwrap_or_default(), 0);
    assert_eq!(host.driver.violations(), [""; 0]);
}
