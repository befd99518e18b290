//! The log during failures: unchanged problems are not repeated.

use std::collections::BTreeMap;
use std::time::Duration;

use hostlet_integration::Daemon;
use hostlet_integration::fake_cri::FakeHost;
use hostlet_runtime::cri::Operation;
use hostlet_runtime::cri::fake::{Fault, Pull, Rule, Script};
use serde_json::json;

use crate::support::{
    SOON, is_ready, manifest, manifest_with, only_container, uid, wait_for_complaint, wait_for_log,
    wait_for_status, wait_until_ready, write_pods,
};

/// Long enough for several repetitions of what is retried every second.
const A_WHILE: Duration = Duration::from_secs(5);

/// Lets some time pass and returns what was logged more than twice meanwhile. There is no condition to wait for: the test
/// looks for silence.
async fn repeated(daemon: &Daemon) -> Vec<String> {
    let before = daemon.log().len();
    tokio::time::sleep(A_WHILE).await;
    let log = daemon.log();
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    // Each line begins with the time.
    for text in log[before..].lines().filter_map(|line| line.split_once(' ')).map(|(_, text)| text) {
        *counts.entry(text).or_default() += 1;
    }
    counts
        .into_iter()
        .filter(|(_, count)| *count > 2)
        .map(|(text, count)| format!("{count} × {text}"))
        .collect()
}

#[tokio::test]
async fn a_missing_runtime_is_logged_once() {
    let mut host = FakeHost::start().unwrap();
    host.cri.crash();
    let daemon = host.start_hostlet("").await.unwrap();
    write_pods(&host, &["web"]).unwrap();
    assert_eq!(repeated(&daemon).await, Vec::<String>::new());
    wait_for_log(&daemon, "waiting for the container runtime").await.unwrap();
}

#[tokio::test]
async fn a_runtime_that_cannot_list_its_pods_at_a_first_start_is_logged_once() {
    let host = FakeHost::start().unwrap();
    host.runtime().faults().add(Rule::new(Operation::ListSandboxes, Fault::fail("not today")));
    let daemon = host.start_hostlet("").await.unwrap();
    wait_for_log(&daemon, "cannot see whether this host has pods of others").await.unwrap();
    assert_eq!(repeated(&daemon).await, Vec::<String>::new());
}

#[tokio::test]
async fn a_lost_runtime_is_logged_once() {
    let mut host = FakeHost::start().unwrap();
    let daemon = host.start_hostlet("").await.unwrap();
    write_pods(&host, &["web", "gone"]).unwrap();
    wait_until_ready(&daemon, &["web", "gone"]).await.unwrap();
    host.cri.crash();
    // Work that cannot be done now: a start and a stop.
    write_pods(&host, &["new"]).unwrap();
    host.remove_manifest("gone.json").unwrap();
    wait_for_complaint(&daemon, "the outage", |text| text.contains("This node:")).await.unwrap();
    assert_eq!(repeated(&daemon).await, Vec::<String>::new());
}

#[tokio::test]
async fn failing_pods_are_logged_once() {
    let host = FakeHost::start().unwrap();
    let daemon = host.start_hostlet("").await.unwrap();
    let runtime = host.runtime();
    runtime.script("crashing", Script::exits(Duration::ZERO, 1));
    host.write_manifest("crash.json", &manifest("crash", &["crashing", "sound"])).unwrap();
    let fail = |operation, pod: &str| {
        let rule = Rule::new(operation, Fault::fail("not today")).pod(&uid(pod).as_str().into());
        runtime.faults().add(rule);
    };
    fail(Operation::RunSandbox, "sandbox");
    fail(Operation::CreateContainer, "create");
    write_pods(&host, &["sandbox", "create", "inspect", "stop"]).unwrap();
    let unreachable = Pull { latency: Duration::ZERO, error: Some("no route to registry.local".to_owned()) };
    runtime.script_pull("registry.local/broken:1", unreachable);
    let spec = json!({"containers": [{"name": "main", "image": "registry.local/broken:1"}]});
    host.write_manifest("image.json", &manifest_with("image", spec)).unwrap();
    host.write_manifest("broken.yaml", "kind: [").unwrap();

    for name in ["inspect", "stop"] {
        daemon.wait_for_pod(name, SOON, is_ready).await.unwrap();
    }
    fail(Operation::ContainerStatus, "inspect");
    fail(Operation::StopContainer, "stop");
    let id = only_container(&host, "inspect").unwrap();
    runtime.exit_container(&id.as_str().into(), 1);
    host.remove_manifest("stop.json").unwrap();
    wait_for_status(&daemon, "crash", &["CrashLoopBackOff"]).await.unwrap();
    wait_for_status(&daemon, "image", &["ErrImagePull", "ImagePullBackOff"]).await.unwrap();
    wait_for_status(&daemon, "create", &["CreateContainerError"]).await.unwrap();
    assert_eq!(repeated(&daemon).await, Vec::<String>::new());
    for expected in ["FailedCreatePodSandBox", "cannot inspect the pod", "FailedKillPod", "broken.yaml"] {
        wait_for_log(&daemon, expected).await.unwrap();
    }
}
