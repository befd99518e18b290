//! State kept across daemons, and its loss: a damaged store, a full disk.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on is to fail")]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};
use hostlet_integration::fake_cri::FakeHost;
use hostlet_integration::{Daemon, Look, wait_for};
use hostlet_proto::cri::ContainerState;
use hostlet_runtime::cri::Operation;
use hostlet_runtime::cri::fake::{OnTerm, Pull, Script};
use hostlet_store::Table;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{ContainerStatus, Pod};
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use serde_json::json;

use crate::support::{
    LATER, SOON, containers_of, home, is_ready, manifest, manifest_with, only_container, running, statuses,
    store_file, uid, wait_for_complaint, wait_for_log, wait_for_status, wait_until_gone, wait_until_ready,
    wait_until_stored, write_pods,
};

/// Waits until these pods are stored for the next daemon.
async fn wait_until_admitted_is_stored(host: &FakeHost, names: &[&str]) -> Result<()> {
    let uids: Vec<String> = names.iter().map(|name| uid(name)).collect();
    wait_until_stored(host, Table::AdmittedPods, |stored| uids.iter().all(|uid| stored.contains(uid))).await
}

/// Waits until `hostlet explain` shows when the failed step is retried, and returns that time. A time in the past belongs to
/// the previous attempt.
async fn wait_for_next_try(daemon: &Daemon, name: &str) -> Result<Timestamp> {
    wait_for("the time of the next try", SOON, async || {
        let output = daemon.command(&["explain", name, "-o", "json"]).output()?;
        let explained: serde_json::Value = serde_json::from_slice(&output.stdout).context("explain")?;
        let next = explained[0]["next"].as_str().map(str::parse::<Timestamp>).transpose()?;
        let next = next.filter(|next| *next > Timestamp::now());
        Ok(next.map_or_else(|| Look::NotYet(explained.to_string()), Look::Done))
    })
    .await
}

#[tokio::test]
async fn a_crash_loop_resumes_its_back_off() {
    let host = FakeHost::start().unwrap();
    host.runtime().script("crashing", Script::exits(Duration::ZERO, 1));
    host.write_manifest("loop.json", &manifest("loop", &["crashing"])).unwrap();
    let daemon = host.start_hostlet("").await.unwrap();
    let starts = || host.runtime().calls_of(Operation::StartContainer).len();
    // Only after the daemon has observed the third termination: its pause is the one to be resumed.
    let restarted_twice = |pod: &Pod| {
        let reason = |status: &ContainerStatus| status.state.clone()?.waiting?.reason;
        let waits = |status: &ContainerStatus| reason(status).as_deref() == Some("CrashLoopBackOff");
        statuses(pod).iter().any(|status| status.restart_count == 2 && waits(status))
    };
    daemon.wait_for_pod("loop", LATER, restarted_twice).await.unwrap();
    let before = wait_for_next_try(&daemon, "loop").await.unwrap();
    let count = starts();
    daemon.stop().await.unwrap();
    let daemon = host.start_hostlet("").await.unwrap();
    wait_for_status(&daemon, "loop", &["CrashLoopBackOff"]).await.unwrap();
    // It is kept by the uptime of the host, whose difference to the wall clock each daemon reads again.
    let after = wait_for_next_try(&daemon, "loop").await.unwrap();
    assert!(after.duration_since(before).abs() < SignedDuration::from_millis(50), "{before} {after}");
    assert_eq!(starts(), count);
}

#[tokio::test]
async fn a_failed_pulls_back_off_continues_in_the_next_daemon() {
    let host = FakeHost::start().unwrap();
    let image = "registry.local/broken:1";
    let unreachable = Pull { latency: Duration::ZERO, error: Some("no route to registry.local".to_owned()) };
    host.runtime().script_pull(image, unreachable);
    let spec = json!({"containers": [{"name": "main", "image": image}]});
    host.write_manifest("image.json", &manifest_with("image", spec)).unwrap();
    let daemon = host.start_hostlet("").await.unwrap();
    let pulls = || host.runtime().calls_of(Operation::PullImage).len();
    wait_for("three pulls", LATER, async || {
        Ok(if pulls() >= 3 { Look::Done(()) } else { Look::NotYet(format!("{} pulls", pulls())) })
    })
    .await
    .unwrap();
    // A daemon that stops before the third response does not know of it.
    wait_for_next_try(&daemon, "image").await.unwrap();
    daemon.stop().await.unwrap();
    let count = pulls();
    let daemon = host.start_hostlet("").await.unwrap();
    wait_for_status(&daemon, "image", &["ImagePullBackOff"]).await.unwrap();
    assert_eq!(pulls(), count, "the new daemon pulled at once");
}

#[tokio::test]
async fn a_manifest_that_breaks_while_no_daemon_runs_keeps_its_pod() {
    let mut host = FakeHost::start().unwrap();
    write_pods(&host, &["broken", "gone", "sound"]).unwrap();
    let daemon = host.start_hostlet("").await.unwrap();
    wait_until_ready(&daemon, &["broken", "gone", "sound"]).await.unwrap();
    wait_until_admitted_is_stored(&host, &["broken", "gone", "sound"]).await.unwrap();
    let container = only_container(&host, "broken").unwrap();
    daemon.kill().unwrap();

    host.write_manifest("broken.json", "{").unwrap();
    host.remove_manifest("gone.json").unwrap();
    let daemon = host.start_hostlet("").await.unwrap();
    wait_until_gone(&host, "gone").await.unwrap();
    wait_until_ready(&daemon, &["broken", "sound"]).await.unwrap();
    assert!(running(&host).contains_key(&container), "the pod of the broken manifest was ended");
    let named = |text: &str| text.contains("broken.json cannot be used");
    wait_for_complaint(&daemon, "the broken file", named).await.unwrap();
    daemon.stop().await.unwrap();

    // The host reboots: the runtime has nothing.
    host.cri.crash();
    host.cri = hostlet_integration::fake_cri::FakeCri::start(
        hostlet_runtime::cri::fake::FakeRuntime::starting_at(Timestamp::now()),
    )
    .unwrap();
    let daemon = host.start_hostlet("").await.unwrap();
    wait_until_ready(&daemon, &["broken", "sound"]).await.unwrap();
    assert!(containers_of(&host, "gone").is_empty());
    // The manifest is repaired.
    host.write_manifest("broken.json", &manifest("broken", &["mended"])).unwrap();
    wait_for_complaint(&daemon, "no complaint", str::is_empty).await.unwrap();
}

/// A manifest whose pod gets another UID with each edit.
fn edited(name: &str, version: &str) -> String {
    let spec = json!({"containers": [{"name": "deaf", "image": "busybox:1", "args": [version]}]});
    let mut pod: serde_json::Value = serde_json::from_str(&manifest_with(name, spec)).unwrap();
    pod["metadata"]["uid"] = json!(format!("{}-{version}", uid(name)));
    pod.to_string()
}

#[tokio::test]
async fn a_pod_edited_while_no_daemon_runs_terminates_before_its_successor_starts() {
    let host = FakeHost::start().unwrap();
    host.runtime().script("deaf", Script::forever().on_term(OnTerm::Ignores));
    host.write_manifest("web.json", &edited("web", "v1")).unwrap();
    let daemon = host.start_hostlet("").await.unwrap();
    wait_until_ready(&daemon, &["web"]).await.unwrap();
    wait_until_admitted_is_stored(&host, &["web-v1"]).await.unwrap();
    daemon.kill().unwrap();

    host.write_manifest("web.json", &edited("web", "v2")).unwrap();
    let daemon = host.start_hostlet("").await.unwrap();
    // Edited again meanwhile: the first version still terminates.
    let stops = || host.runtime().calls_of(Operation::StopContainer).len();
    wait_for("the first version is being stopped", SOON, async || {
        Ok(if stops() > 0 { Look::Done(()) } else { Look::NotYet("no stop".to_owned()) })
    })
    .await
    .unwrap();
    daemon.kill().unwrap();
    let daemon = host.start_hostlet("").await.unwrap();
    daemon
        .wait_for_pod("web", LATER, |pod| is_ready(pod) && pod.metadata.uid == Some("uid-of-web-v2".into()))
        .await
        .unwrap();

    let calls = host.runtime().calls();
    let of = |version: &str| {
        let uid = format!("{}-{version}", uid("web"));
        calls.iter().filter(move |call| call.pod.as_ref().is_some_and(|pod| pod.as_str() == uid))
    };
    let last_stop =
        of("v1").filter(|c| c.operation == Operation::StopSandbox).filter_map(|c| c.ended_at).max();
    let first_start = of("v2").filter(|c| c.operation == Operation::RunSandbox).map(|c| c.at).min();
    assert!(last_stop.unwrap() <= first_start.unwrap(), "{last_stop:?} {first_start:?}\n{calls:#?}");
}

#[tokio::test]
async fn running_pods_are_not_rejected_because_others_are_read_first() {
    let host = FakeHost::start().unwrap();
    write_pods(&host, &["x", "y"]).unwrap();
    let daemon = host.start_hostlet("maxPods: 2").await.unwrap();
    wait_until_ready(&daemon, &["x", "y"]).await.unwrap();
    wait_until_admitted_is_stored(&host, &["x", "y"]).await.unwrap();
    let before = running(&host);
    daemon.kill().unwrap();
    write_pods(&host, &["a", "b"]).unwrap();
    let daemon = host.start_hostlet("maxPods: 2").await.unwrap();
    wait_for_status(&daemon, "a", &["OutOfpods"]).await.unwrap();
    wait_for_status(&daemon, "b", &["OutOfpods"]).await.unwrap();
    wait_until_ready(&daemon, &["x", "y"]).await.unwrap();
    assert_eq!(running(&host), before);
}

fn set_aside(host: &FakeHost) -> Vec<String> {
    let entries = fs::read_dir(home(host)).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap());
    entries.filter(|name| name.contains(".aside-")).collect()
}

#[tokio::test]
async fn a_damaged_store_is_set_aside_reported_and_recreated() {
    let host = FakeHost::start().unwrap();
    write_pods(&host, &["web"]).unwrap();
    let daemon = host.start_hostlet("").await.unwrap();
    wait_until_ready(&daemon, &["web"]).await.unwrap();
    wait_until_admitted_is_stored(&host, &["web"]).await.unwrap();
    let before = running(&host);
    daemon.kill().unwrap();
    fs::write(store_file(&host), "this is no store\n".repeat(1000)).unwrap();

    let daemon = host.start_hostlet("").await.unwrap();
    wait_until_ready(&daemon, &["web"]).await.unwrap();
    let is_reported = |text: &str| text.contains("The store: ") && text.contains("a new store was created");
    wait_for_complaint(&daemon, "the store that was set aside", is_reported).await.unwrap();
    wait_for_log(&daemon, "the store was unusable and was set aside").await.unwrap();
    assert_eq!(set_aside(&host).len(), 1);
    assert_eq!(running(&host), before);
    wait_until_admitted_is_stored(&host, &["web"]).await.unwrap();
    daemon.kill().unwrap();

    let daemon = host.start_hostlet("").await.unwrap();
    wait_until_ready(&daemon, &["web"]).await.unwrap();
    wait_for_complaint(&daemon, "no complaint", str::is_empty).await.unwrap();
    assert_eq!(running(&host), before);
}

/// A file system in memory of a given size, unmounted on drop.
struct Tmpfs(PathBuf);

impl Tmpfs {
    fn mount(at: &Path, options: &str) -> Self {
        fs::create_dir_all(at).unwrap();
        mount(Some("hostlet-test"), at, Some("tmpfs"), MsFlags::empty(), Some(options)).unwrap();
        Self(at.to_owned())
    }

    fn remount(&self, options: &str) {
        let flags = MsFlags::MS_REMOUNT;
        mount(None::<&str>, &self.0, None::<&str>, flags, Some(options)).unwrap();
    }
}

impl Drop for Tmpfs {
    fn drop(&mut self) {
        let _ = umount2(&self.0, MntFlags::MNT_DETACH);
    }
}

#[tokio::test]
async fn a_full_disk_is_reported_and_affects_no_pod_that_runs() {
    let host = FakeHost::start().unwrap();
    let disk = Tmpfs::mount(&home(&host), "size=16k,mode=700");
    let daemon = host.start_hostlet("").await.unwrap();
    let names: Vec<String> = (0..40).map(|n| format!("pod{n}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    write_pods(&host, &names).unwrap();
    let full = |text: &str| text.contains("The store: ") && text.contains("No space left on device");
    wait_for_complaint(&daemon, "the full disk", full).await.unwrap();
    // No pod is begun without a record of it: hostlet would not know it as its own after a restart.
    let waits = |pod: &Pod| json!(pod.status).to_string().contains("No space left on device");
    daemon.wait_for_pod("pod39", SOON, waits).await.unwrap();
    disk.remount("size=8m");
    wait_for_complaint(&daemon, "no complaint", str::is_empty).await.unwrap();
    wait_until_ready(&daemon, &names).await.unwrap();
    wait_until_admitted_is_stored(&host, &names).await.unwrap();

    let before = running(&host);
    let filler = home(&host).join("filler");
    let filled = fs::write(&filler, vec![0; 16 << 20]).unwrap_err();
    assert_eq!(filled.kind(), std::io::ErrorKind::StorageFull);
    write_pods(&host, &["late"]).unwrap();
    daemon.wait_for_pod("late", SOON, waits).await.unwrap();
    daemon.kill().unwrap();
    let daemon = host.start_hostlet("").await.unwrap();
    wait_until_ready(&daemon, &names).await.unwrap();
    // A daemon that starts may free enough for the other pod.
    let mut still = running(&host);
    still.retain(|container, _| before.contains_key(container));
    assert_eq!(still, before);
    fs::remove_file(filler).unwrap();
    wait_until_ready(&daemon, &["late"]).await.unwrap();
    drop(daemon);
    drop(disk);
}

#[tokio::test]
async fn a_store_on_a_read_only_file_system_is_still_read() {
    let host = FakeHost::start().unwrap();
    let disk = Tmpfs::mount(&home(&host), "size=8m,mode=700");
    write_pods(&host, &["broken"]).unwrap();
    let daemon = host.start_hostlet("").await.unwrap();
    wait_until_ready(&daemon, &["broken"]).await.unwrap();
    wait_until_admitted_is_stored(&host, &["broken"]).await.unwrap();
    let before: BTreeMap<String, u32> = running(&host);
    daemon.kill().unwrap();
    disk.remount("ro");
    host.write_manifest("broken.json", "{").unwrap();
    let daemon = host.start_hostlet("").await.unwrap();
    wait_until_ready(&daemon, &["broken"]).await.unwrap();
    assert_eq!(running(&host), before);
    let is_reported = |text: &str| text.contains("The store: ") && text.contains("Read-only file system");
    wait_for_complaint(&daemon, "the read-only file system", is_reported).await.unwrap();
    assert!(
        containers_of(&host, "broken").iter().all(|(.., state)| *state == ContainerState::ContainerRunning)
    );
    drop(daemon);
    drop(disk);
}
