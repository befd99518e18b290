//! Broken manifests are named and affect no others.

use std::fs::{self, File};

use hostlet_integration::fake_cri::FakeHost;
use hostlet_integration::{Look, wait_for};
use hostlet_proto::cri::ContainerState;
use nix::sys::stat::Mode;
use nix::unistd::mkfifo;
use serde_json::json;

use crate::support::{
    SOON, containers_of, manifest, manifest_with, only_container, running, uid, wait_for_complaint,
    wait_for_message, wait_for_status, wait_until_gone, wait_until_ready, write_pods,
};

#[tokio::test]
async fn unreadable_manifests_are_named_and_affect_no_other() {
    let host = FakeHost::start().unwrap();
    let dir = host.manifests();
    mkfifo(&dir.join("fifo.yaml"), Mode::S_IRWXU).unwrap();
    fs::create_dir(dir.join("directory.yaml")).unwrap();
    std::os::unix::fs::symlink("nowhere", dir.join("link.yaml")).unwrap();
    // Sparse: large without using disk space.
    File::create(dir.join("huge.yaml")).unwrap().set_len(1 << 40).unwrap();
    fs::write(dir.join("binary.yaml"), [0xff, 0x00, 0xfe]).unwrap();
    fs::write(dir.join("empty.yaml"), "").unwrap();
    fs::write(dir.join("service.yaml"), "apiVersion: v1\nkind: Service\nmetadata: {name: a}\n").unwrap();
    fs::write(dir.join("broken.yaml"), "apiVersion: v1\nkind: Pod\nspec: [").unwrap();
    let invalid = manifest_with("Not_A_Name", json!({"containers": []}));
    fs::write(dir.join("invalid.yaml"), invalid).unwrap();
    fs::write(dir.join(".hidden.yaml"), "kind: [").unwrap();
    let daemon = host.start_hostlet("").await.unwrap();
    write_pods(&host, &["one", "two"]).unwrap();
    wait_until_ready(&daemon, &["one", "two"]).await.unwrap();

    let bad = ["fifo", "directory", "link", "huge", "binary", "empty", "service", "broken", "invalid"];
    // A file that may be incomplete is reported later.
    let all = |complaint: &str| complaint.matches("cannot be used").count() == bad.len();
    let complaint = wait_for_complaint(&daemon, "all bad files", all).await.unwrap();
    for name in bad {
        let file = dir.join(format!("{name}.yaml"));
        assert!(
            complaint.contains(&format!("Manifest {} cannot be used:\n  ", file.display())),
            "{name}: {complaint}"
        );
    }
    for part in ["metadata.name", "spec.containers"] {
        assert!(complaint.contains(part), "all mistakes at once, {part} too: {complaint}");
    }
    assert_eq!(daemon.pods().unwrap().len(), 2);

    for name in bad.iter().filter(|name| **name != "directory") {
        host.remove_manifest(&format!("{name}.yaml")).unwrap();
    }
    fs::remove_dir(dir.join("directory.yaml")).unwrap();
    wait_for_complaint(&daemon, "no complaint", str::is_empty).await.unwrap();
}

#[tokio::test]
async fn a_broken_manifest_keeps_its_pod_and_a_fixed_one_changes_it() {
    let host = FakeHost::start().unwrap();
    let daemon = host.start_hostlet("").await.unwrap();
    write_pods(&host, &["web"]).unwrap();
    host.write_manifest("late.json", "{").unwrap();
    wait_until_ready(&daemon, &["web"]).await.unwrap();
    let first = only_container(&host, "web").unwrap();

    host.write_manifest("web.json", &manifest("web", &["main", "main"])).unwrap();
    let goes_on = format!("Pod default/web-{} keeps running unchanged.", host.node());
    let complaint =
        wait_for_complaint(&daemon, "the break", |complaint| complaint.contains(&goes_on)).await.unwrap();
    assert!(complaint.contains("spec.containers[1].name"), "{complaint}");
    host.write_manifest("late.json", &manifest("late", &["main"])).unwrap();
    wait_until_ready(&daemon, &["web", "late"]).await.unwrap();
    assert!(running(&host).contains_key(&first), "the broken file harmed its pod");

    host.write_manifest("web.json", &manifest("web", &["mended"])).unwrap();
    let mended = wait_for("the mended container runs and no other", SOON, async || {
        let mut containers = containers_of(&host, "web");
        containers.retain(|(_, _, state)| *state == ContainerState::ContainerRunning);
        let is_mended = containers.len() == 1 && containers[0].0 == "mended";
        Ok(if is_mended { Look::Done(()) } else { Look::NotYet(format!("{containers:?}")) })
    });
    mended.await.unwrap();
    wait_until_ready(&daemon, &["web"]).await.unwrap();
    wait_for_complaint(&daemon, "no complaint", str::is_empty).await.unwrap();
}

#[tokio::test]
async fn a_pod_that_requests_too_much_is_shown_with_the_reason() {
    let host = FakeHost::start().unwrap();
    let daemon = host.start_hostlet("maxPods: 2").await.unwrap();
    let disk = json!({"targetPortal": "192.0.2.1", "iqn": "iqn.2001-04.com.example:a", "lun": 0});
    let share = json!({"name": "data", "iscsi": disk});
    let container = json!({"name": "main", "image": "busybox:1"});
    let spec = json!({"containers": [container], "volumes": [share]});
    host.write_manifest("share.json", &manifest_with("share", spec)).unwrap();
    wait_for_status(&daemon, "share", &["PodFeatureUnsupported"]).await.unwrap();
    wait_for_message(&daemon, "share", |shown| shown.contains("spec.volumes[0]")).await.unwrap();
    let pod = daemon.pod("share").unwrap().unwrap();
    assert_eq!(pod.status.unwrap().phase.as_deref(), Some("Failed"));
    assert!(!host.runtime().wire_sandboxes().iter().any(|s| s.labels.values().any(|v| *v == uid("share"))));

    write_pods(&host, &["one", "two"]).unwrap();
    wait_until_ready(&daemon, &["one", "two"]).await.unwrap();
    write_pods(&host, &["three"]).unwrap();
    wait_for_status(&daemon, "three", &["OutOfpods"]).await.unwrap();
    // A pod starts once resources become free.
    host.remove_manifest("one.json").unwrap();
    wait_until_gone(&host, "one").await.unwrap();
    wait_until_ready(&daemon, &["three"]).await.unwrap();

    host.write_manifest("share.json", &manifest("share", &["main"])).unwrap();
    host.remove_manifest("two.json").unwrap();
    wait_until_ready(&daemon, &["share"]).await.unwrap();
}
