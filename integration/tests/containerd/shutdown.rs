//! A shutdown of the host on a real containerd, announced by a scripted logind.

use std::fs;
use std::time::Duration;

use hostlet_integration::real::{AfterReboot, BUSYBOX_IMAGE, RealHost};
use hostlet_integration::{FakeLogind, Look, wait_for};
use serde_json::json;

use crate::support::{IDLE, SOON, running_containers, wait_for_pod, wait_until_ready};

const PERIODS: &str = "shutdownGracePeriod: 30s\nshutdownGracePeriodCriticalPods: 10s\n";
const CRITICAL: i32 = 2_000_000_000;

/// A pod of this priority.
fn manifest(name: &str, priority: i32) -> String {
    let container = json!({"name": "main", "image": BUSYBOX_IMAGE, "command": ["sh", "-c", IDLE],
        "volumeMounts": [{"name": "memory", "mountPath": "/memory"}]});
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default"}, "spec": {
        "priority": priority, "terminationGracePeriodSeconds": 5, "containers": [container],
        "volumes": [{"name": "memory", "emptyDir": {"medium": "Memory"}}]}})
    .to_string()
}

#[tokio::test]
async fn real_containers_end_in_order_and_start_again_with_the_host() {
    let mut host = RealHost::start().await.unwrap();
    let logind = FakeLogind::start(Duration::from_secs(60)).await.unwrap();
    let address = logind.address();
    let environment = [("DBUS_SYSTEM_BUS_ADDRESS", &*address)];
    let daemon = host.start_hostlet_in(PERIODS, &environment).await.unwrap();
    for (name, priority) in [("vital", CRITICAL), ("web", 0)] {
        host.write_manifest(&format!("{name}.json"), &manifest(name, priority)).unwrap();
        wait_until_ready(&daemon, name).await.unwrap();
    }
    logind.wait_for_locks(1, SOON).await.unwrap();
    logind.prepare(true).unwrap();
    logind.wait_for_locks(0, SOON).await.unwrap();
    assert_eq!(running_containers(&host).await.unwrap().len(), 0);
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
    // The directory itself is a mount.
    let below = format!("{}/", host.kubelet_root().display());
    assert!(!mounts.contains(&below), "a volume is still mounted below {below}");
    let mut finished = Vec::new();
    for name in ["web", "vital"] {
        let pod = wait_for_pod(&daemon, name, SOON, |pod| {
            pod.status.as_ref().is_some_and(|status| status.reason.as_deref() == Some("Terminated"))
        });
        let status = pod.await.unwrap().status.unwrap();
        assert_eq!(status.phase.as_deref(), Some("Failed"));
        let ended = status.container_statuses.unwrap().remove(0).state.unwrap().terminated.unwrap();
        assert_eq!(ended.exit_code, 0, "{name} had time to stop");
        finished.push(ended.finished_at.unwrap());
    }
    assert!(finished[0] <= finished[1], "{finished:?}");
    let state = host.kubelet_root().join("graceful_node_shutdown_state");
    let state: serde_json::Value = serde_json::from_str(&fs::read_to_string(state).unwrap()).unwrap();
    assert_ne!(state["endTime"], "0001-01-01T00:00:00Z");

    daemon.stop().await.unwrap();
    logind.boot();
    host.power_off(AfterReboot::DeadKnown).await.unwrap();
    host.launch_containerd().unwrap();
    let daemon = host.start_hostlet_in(PERIODS, &environment).await.unwrap();
    for name in ["vital", "web"] {
        wait_until_ready(&daemon, name).await.unwrap();
    }
    logind.wait_for_locks(1, SOON).await.unwrap();
    // The record of the last shutdown is shown.
    let shown = wait_for("the metrics of the last shutdown", SOON, async || {
        let mut command = std::process::Command::new("curl");
        command.args(["--silent", "--unix-socket"]).arg(daemon.socket()).arg("http://hostlet/metrics");
        let text = String::from_utf8(command.output()?.stdout)?;
        let line = text.lines().find(|line| line.starts_with("kubelet_graceful_shutdown_end_time_seconds "));
        let is_set = line.is_some_and(|line| !line.ends_with(" 0") && !line.ends_with(" 0.0"));
        Ok(if is_set { Look::Done(()) } else { Look::NotYet(text) })
    });
    shown.await.unwrap();
    daemon.stop().await.unwrap();
}
