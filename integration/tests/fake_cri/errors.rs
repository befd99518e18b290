//! Calls that fail, and calls that take effect despite an error.

use std::time::Duration;

use hostlet_integration::fake_cri::FakeHost;
use hostlet_proto::cri::ContainerState;
use hostlet_runtime::cri::Operation;
use hostlet_runtime::cri::fake::{Failure, Fault, Rule, Run, Script};
use k8s_openapi::api::core::v1::Pod;

use crate::support::{
    LATER, containers_of, is_ready, manifest, sandboxes_of, statuses, uid, wait_for_log, wait_for_message,
    wait_for_status, wait_until_ready, write_pods,
};

const RUNS: ContainerState = ContainerState::ContainerRunning;

fn main_at(attempt: u32) -> (String, u32, ContainerState) {
    ("main".to_owned(), attempt, RUNS)
}

#[tokio::test]
async fn a_failed_sandbox_is_retried() {
    let host = FakeHost::start().unwrap();
    let daemon = host.start_hostlet("").await.unwrap();
    let rule = |operation, text| Rule::new(operation, Fault::fail(text));
    let (sandbox, create) = (uid("sandbox").as_str().into(), uid("create").as_str().into());
    host.runtime().faults().add(rule(Operation::RunSandbox, "no room for a sandbox").pod(&sandbox));
    host.runtime().faults().add(rule(Operation::CreateContainer, "no room for a container").pod(&create));
    write_pods(&host, &["sandbox", "create", "other"]).unwrap();

    wait_until_ready(&daemon, &["other"]).await.unwrap();
    wait_for_status(&daemon, "sandbox", &["ContainerCreating"]).await.unwrap();
    wait_for_status(&daemon, "create", &["CreateContainerError"]).await.unwrap();
    // Its status was the same before the failure.
    let message = "Failed to create pod sandbox: no room for a sandbox";
    wait_for_message(&daemon, "sandbox", |shown| shown == message).await.unwrap();
    wait_for_message(&daemon, "create", |shown| shown == "no room for a container").await.unwrap();
    wait_for_log(&daemon, "FailedCreatePodSandBox").await.unwrap();

    host.runtime().faults().clear();
    for name in ["sandbox", "create"] {
        daemon.wait_for_pod(name, LATER, is_ready).await.unwrap();
        wait_for_message(&daemon, name, str::is_empty).await.unwrap();
        assert_eq!(sandboxes_of(&host, name), [0]);
        assert_eq!(containers_of(&host, name), [main_at(0)]);
    }
}

/// The call takes effect only after the daemon's deadline.
fn late(operation: Operation, pod: &str, lands_after: Duration) -> Rule {
    let fault = Fault::LateSuccess { answer_after: Duration::MAX, failure: Failure::TimedOut, lands_after };
    Rule::new(operation, fault).pod(&uid(pod).as_str().into()).times(1)
}

#[tokio::test]
async fn a_call_that_timed_out_but_took_effect_is_not_repeated() {
    let host = FakeHost::start().unwrap();
    let daemon = host.start_hostlet("runtimeRequestTimeout: 1s").await.unwrap();
    // Some take effect before the daemon lists again, some only after it has retried.
    let cases = [
        ("sandbox", Operation::RunSandbox, 3),
        ("sandbox-late", Operation::RunSandbox, 16),
        ("create", Operation::CreateContainer, 2),
        ("create-late", Operation::CreateContainer, 16),
        ("start", Operation::StartContainer, 2),
        ("start-late", Operation::StartContainer, 16),
    ];
    let names = cases.map(|(name, _, _)| name);
    for (name, operation, seconds) in cases {
        host.runtime().faults().add(late(operation, name, Duration::from_secs(seconds)));
    }
    write_pods(&host, &names).unwrap();
    for name in names {
        daemon.wait_for_pod(name, LATER, is_ready).await.unwrap();
        assert_eq!(sandboxes_of(&host, name), [0], "{name}");
        assert_eq!(containers_of(&host, name), [main_at(0)], "{name}");
    }
    assert!(host.runtime().calls_of(Operation::StopContainer).is_empty());
    assert!(host.runtime().calls_of(Operation::StopSandbox).is_empty());
}

#[tokio::test]
async fn a_container_that_cannot_start_is_reported_and_backs_off() {
    let host = FakeHost::start().unwrap();
    let daemon = host.start_hostlet("").await.unwrap();
    let message = "exec: \"nosuch\": executable file not found in $PATH";
    let runs = [Run::StartError(message.to_owned()), Run::StartError(message.to_owned()), Run::Forever];
    host.runtime().script("broken", Script::runs(runs));
    host.write_manifest("pod.json", &manifest("pod", &["broken", "sound"])).unwrap();
    let failed = ["RunContainerError", "CrashLoopBackOff"];
    wait_for_status(&daemon, "pod", &failed).await.unwrap();
    let backs_off = |pod: &Pod| {
        let [broken, sound] = statuses(pod) else { return false };
        let waiting = broken.state.clone().and_then(|state| state.waiting?.reason);
        // The other container runs.
        waiting.as_deref() == Some("CrashLoopBackOff") && sound.ready
    };
    let pod = daemon.wait_for_pod("pod", LATER, backs_off).await.unwrap();
    let last = statuses(&pod)[0].last_state.clone().unwrap().terminated.unwrap();
    assert_eq!((last.reason.as_deref(), last.message.as_deref()), (Some("StartError"), Some(message)));
    let pod = daemon.wait_for_pod("pod", LATER, is_ready).await.unwrap();
    let restarts: Vec<_> = statuses(&pod).iter().map(|s| (s.name.as_str(), s.restart_count)).collect();
    assert_eq!(restarts, [("broken", 2), ("sound", 0)]);
}
