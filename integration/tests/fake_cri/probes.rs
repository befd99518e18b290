//! Probes of the real daemon on a fake runtime: what is shown, and what survives the daemon.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on is to fail")]

use std::time::Duration;

use hostlet_integration::fake_cri::FakeHost;
use hostlet_integration::{Daemon, Look, wait_for};
use hostlet_runtime::cri::fake::Exec;
use hostlet_runtime::cri::{ExecOutput, Operation};
use k8s_openapi::api::core::v1::{ContainerStatus, Pod};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::metrics::get;
use crate::support::{SOON, is_ready, manifest_with, statuses, stdout, wait_until_ready};

/// A pod of one container with these probes.
fn probed(name: &str, probes: Value) -> String {
    let mut container = json!({"name": "main", "image": "busybox:1"});
    container.as_object_mut().unwrap().extend(probes.as_object().unwrap().clone());
    manifest_with(name, json!({"containers": [container]}))
}

fn by(command: &str) -> Value {
    json!({"exec": {"command": [command]}, "periodSeconds": 1, "failureThreshold": 2})
}

/// From now on this command exits with this code.
fn exits(host: &FakeHost, command: &str, exit_code: i32) {
    let output = ExecOutput { stdout: b"said".to_vec(), stderr: Vec::new(), exit_code };
    host.runtime().script_exec(&[command], Exec { takes: Duration::ZERO, output });
}

fn status(pod: &Pod) -> ContainerStatus {
    statuses(pod).first().cloned().unwrap_or_default()
}

#[tokio::test]
async fn a_failing_probe_is_shown_everywhere() {
    let host = FakeHost::start().unwrap();
    let daemon = host.start_hostlet("").await.unwrap();
    host.write_manifest("web.json", &probed("web", json!({"readinessProbe": by("ready")}))).unwrap();
    wait_until_ready(&daemon, &["web"]).await.unwrap();
    exits(&host, "ready", 1);
    daemon.wait_for_pod("web", SOON, |pod| !status(pod).ready && !is_ready(pod)).await.unwrap();
    let explained = daemon.command(&["explain", "web"]).output().unwrap();
    let sentence = "Container main is not ready: its readiness probe fails: said";
    assert!(stdout(&explained).contains(sentence), "{explained:?}");
    let events = daemon.cli(&["events", "web"]).unwrap();
    assert!(events.contains("Unhealthy") && events.contains("Readiness probe failed: said"), "{events}");
    let timeline = daemon.cli(&["timeline", "web"]).unwrap();
    assert!(timeline.contains("main is ready") && timeline.contains("main is not ready"), "{timeline}");
    let metrics = get(&daemon.socket().to_string_lossy(), "/metrics/probes").unwrap();
    let counted =
        "prober_probe_total{probe_type=\"Readiness\",result=\"successful\",container=\"main\",pod=\"web-";
    assert!(metrics.contains(counted), "{metrics}");
    assert!(metrics.contains("prober_probe_duration_seconds_bucket{"), "{metrics}");
    exits(&host, "ready", 0);
    wait_until_ready(&daemon, &["web"]).await.unwrap();
}

#[tokio::test]
async fn liveness_restarts_and_startup_gates() {
    let host = FakeHost::start().unwrap();
    let daemon = host.start_hostlet("").await.unwrap();
    exits(&host, "started", 1);
    let mut startup = by("started");
    startup["failureThreshold"] = json!(1000);
    let probes =
        json!({"startupProbe": startup, "livenessProbe": by("alive"), "readinessProbe": by("ready")});
    host.write_manifest("app.json", &probed("app", probes)).unwrap();
    wait_for("startup probes", SOON, async || {
        let calls = host.runtime().calls_of(Operation::ExecSync).len();
        Ok(if calls >= 2 { Look::Done(()) } else { Look::NotYet(calls.to_string()) })
    })
    .await
    .unwrap();
    let starting = daemon.wait_for_pod("app", SOON, |pod| status(pod).started == Some(false)).await.unwrap();
    assert!(!status(&starting).ready, "{starting:?}");
    exits(&host, "started", 0);
    wait_until_ready(&daemon, &["app"]).await.unwrap();
    exits(&host, "alive", 1);
    let restarted = daemon.wait_for_pod("app", SOON, |pod| status(pod).restart_count == 1);
    restarted.await.unwrap();
    exits(&host, "alive", 0);
    let events = daemon.cli(&["events", "app"]).unwrap();
    assert!(events.contains("Container main failed liveness probe, will be restarted"), "{events}");
    wait_until_ready(&daemon, &["app"]).await.unwrap();
}

#[tokio::test]
async fn findings_survive_kills_of_the_daemon() {
    let host = FakeHost::start().unwrap();
    let mut daemon = host.start_hostlet("").await.unwrap();
    let probes =
        json!({"startupProbe": by("started"), "readinessProbe": by("ready"), "livenessProbe": by("alive")});
    host.write_manifest("keen.json", &probed("keen", probes)).unwrap();
    wait_until_ready(&daemon, &["keen"]).await.unwrap();
    // It would not start again.
    exits(&host, "started", 1);
    for _ in 0..3 {
        // By then the finding is on the disk.
        until_probed_again(&host).await;
        daemon.kill().unwrap();
        daemon = host.start_hostlet("").await.unwrap();
        let begun = Instant::now();
        let mut shown = 0;
        while begun.elapsed() < Duration::from_secs(3) {
            shown += usize::from(check_ready(&daemon));
        }
        assert!(shown > 0);
        until_probed_again(&host).await;
    }
}

/// Waits for two more rounds of probes.
async fn until_probed_again(host: &FakeHost) {
    let calls = || host.runtime().calls_of(Operation::ExecSync).len();
    let before = calls();
    wait_for("more probes", SOON, async || {
        Ok(if calls() >= before + 4 { Look::Done(()) } else { Look::NotYet(calls().to_string()) })
    })
    .await
    .unwrap();
}

/// Whether the pod has a status, which has to be ready then.
fn check_ready(daemon: &Daemon) -> bool {
    let Some(pod) = daemon.pod("keen").unwrap() else { return false };
    let status = status(&pod);
    if status.container_id.is_none() {
        return false;
    }
    assert_eq!((status.ready, status.started, status.restart_count), (true, Some(true), 0), "{pod:?}");
    true
}
