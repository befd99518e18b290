//! The runtime as a whole: unavailable at start-up, crashing and restarting, with and without newer features.

use anyhow::Result;
use hostlet_base::CgroupDriver;
use hostlet_integration::fake_cri::FakeHost;
use hostlet_integration::{Look, wait_for};
use hostlet_proto::cri::ContainerState;
use hostlet_runtime::cri::Operation;
use hostlet_runtime::cri::fake::EventMode;

use crate::support::{
    SOON, containers_of, only_container, running, sandboxes_of, statuses, stdout, wait_for_complaint,
    wait_until_gone, wait_until_ready, write_pods,
};

#[tokio::test]
async fn the_daemon_waits_for_a_runtime_that_starts_later() {
    let mut host = FakeHost::start().unwrap();
    host.cri.crash();
    let daemon = host.start_hostlet("").await.unwrap();
    write_pods(&host, &["web"]).unwrap();
    let socket = host.cri.socket().display().to_string();
    let is_reported =
        |text: &str| text.contains("This node:") && text.contains(&socket) && text.contains("No such file");
    wait_for_complaint(&daemon, "why nothing runs", is_reported).await.unwrap();
    let explained = daemon.command(&["explain", "web"]).output().unwrap();
    let (text, cause) = (stdout(&explained), "the container runtime has not answered");
    assert!(text.contains(cause) && text.contains("systemctl start"), "{explained:?}");

    host.cri.resume().unwrap();
    wait_until_ready(&daemon, &["web"]).await.unwrap();
    wait_for_complaint(&daemon, "no complaint", str::is_empty).await.unwrap();
}

#[tokio::test]
async fn a_daemon_without_a_runtime_stops_on_sigterm() {
    let mut host = FakeHost::start().unwrap();
    host.cri.crash();
    let daemon = host.start_hostlet("").await.unwrap();
    assert!(daemon.stop().await.unwrap().success());
}

#[tokio::test]
async fn a_crash_of_the_runtime_restarts_nothing() {
    let mut host = FakeHost::start().unwrap();
    let daemon = host.start_hostlet("").await.unwrap();
    write_pods(&host, &["one", "two", "three"]).unwrap();
    wait_until_ready(&daemon, &["one", "two", "three"]).await.unwrap();
    let before = running(&host);
    assert_eq!(before.len(), 3);

    for round in ["first", "second"] {
        host.cri.crash();
        let socket = host.cri.socket().display().to_string();
        let is_reported = |text: &str| text.contains("This node:") && text.contains(&socket);
        wait_for_complaint(&daemon, "the outage", is_reported).await.unwrap();
        wait_until_ready(&daemon, &["one", "two", "three"]).await.unwrap();
        host.cri.resume().unwrap();
        wait_for_complaint(&daemon, "no complaint", str::is_empty).await.unwrap();
        // A new pod shows that the daemon has completed its first passes.
        write_pods(&host, &[round]).unwrap();
        wait_until_ready(&daemon, &[round]).await.unwrap();
    }
    let after = running(&host);
    assert!(before.keys().all(|id| after.contains_key(id)), "{before:?} → {after:?}");
    assert_eq!(after.len(), 5);
    assert_eq!(host.runtime().calls_of(Operation::CreateContainer).len(), 5);
    for operation in [Operation::StopContainer, Operation::StopSandbox, Operation::RemoveContainer] {
        assert!(host.runtime().calls_of(operation).is_empty(), "{operation}");
    }
}

#[tokio::test]
async fn pods_run_with_or_without_a_cgroup_driver_from_the_runtime() {
    for driver in [None, Some(CgroupDriver::Cgroupfs), Some(CgroupDriver::Systemd)] {
        let host = FakeHost::start().unwrap();
        host.runtime().set_cgroup_driver(driver);
        let daemon = host.start_hostlet("").await.unwrap();
        write_pods(&host, &["web"]).unwrap();
        wait_until_ready(&daemon, &["web"]).await.unwrap();
        assert_eq!(host.runtime().calls_of(Operation::RuntimeConfig).len(), 1);
    }
}

/// A pod starts, its container is replaced after a crash, and it stops, with any kind of events.
async fn check_lifecycle_with_events(mode: EventMode) -> Result<()> {
    let host = FakeHost::start()?;
    host.runtime().set_event_mode(mode);
    let daemon = host.start_hostlet("").await?;
    write_pods(&host, &["web", "other"])?;
    wait_until_ready(&daemon, &["web", "other"]).await?;
    let neighbour = only_container(&host, "other")?;
    host.runtime().exit_container(&only_container(&host, "web")?.into(), 1);
    host.runtime().hang_up_events();
    let restarted =
        |pod: &_| statuses(pod).iter().all(|s| s.restart_count == 1 && s.ready) && !statuses(pod).is_empty();
    daemon.wait_for_pod("web", SOON, restarted).await?;
    let (exited, runs) = (ContainerState::ContainerExited, ContainerState::ContainerRunning);
    let main = || "main".to_owned();
    assert_eq!(containers_of(&host, "web"), [(main(), 0, exited), (main(), 1, runs)], "{mode:?}");
    assert_eq!(sandboxes_of(&host, "web"), [0], "{mode:?}");

    host.remove_manifest("web.json")?;
    wait_until_gone(&host, "web").await?;
    let only_other = wait_for("only the other pod shown", SOON, async || {
        let pods = daemon.pods()?.len();
        Ok(if pods == 1 { Look::Done(()) } else { Look::NotYet(format!("{pods} pods")) })
    });
    only_other.await?;
    assert!(running(&host).contains_key(&neighbour), "{mode:?}");
    Ok(())
}

#[tokio::test]
async fn events_by_pod_are_sufficient() {
    check_lifecycle_with_events(EventMode::Pods).await.unwrap();
}

#[tokio::test]
async fn events_by_object_are_sufficient() {
    check_lifecycle_with_events(EventMode::Objects).await.unwrap();
}

#[tokio::test]
async fn duplicated_events_do_no_harm() {
    check_lifecycle_with_events(EventMode::Duplicated).await.unwrap();
}

#[tokio::test]
async fn lost_events_do_no_harm() {
    check_lifecycle_with_events(EventMode::Lost).await.unwrap();
}

#[tokio::test]
async fn no_events_are_needed() {
    check_lifecycle_with_events(EventMode::Unimplemented).await.unwrap();
}
