//! Shutdowns of the host: the real daemon with a real D-Bus daemon and a scripted logind.

use std::fs;
use std::time::Duration;

use anyhow::{Context, Result};
use hostlet_integration::fake_cri::FakeHost;
use hostlet_integration::{Daemon, FakeApiServer, FakeLogind, Look, wait_for};
use hostlet_runtime::cri::Operation;
use hostlet_runtime::cri::fake::{OnTerm, Restart, Script};
use k8s_openapi::api::core::v1::{Event, Node, Pod};
use serde_json::json;

use crate::support::{PODS, SOON, is_ready, manifest_with, uid, wait_for_shown, wait_until_ready};
const PERIODS: &str = "shutdownGracePeriod: 30s\nshutdownGracePeriodCriticalPods: 10s\n";
const CRITICAL: i32 = 2_000_000_000;
/// Long enough for the periods, so that logind needs no other configuration.
const DELAY: Duration = Duration::from_secs(60);

/// A host whose daemons find this logind, with containers that stop within a second.
async fn host() -> Result<(FakeHost, FakeLogind)> {
    let logind = FakeLogind::start(DELAY).await?;
    let mut host = FakeHost::start()?;
    host.set_variable("DBUS_SYSTEM_BUS_ADDRESS", logind.address());
    host.runtime().add_image("busybox:1");
    let stops = OnTerm::Exits { after: Duration::from_millis(500), code: 0 };
    host.runtime().script("main", Script::forever().on_term(stops));
    Ok((host, logind))
}

/// Gives the node a pod of this priority.
fn give(server: &FakeApiServer, host: &FakeHost, name: &str, priority: i32) -> Result<()> {
    let pod = json!({"metadata": {"name": name, "namespace": "default"}, "spec": {
        "nodeName": host.node(), "restartPolicy": "Always", "terminationGracePeriodSeconds": 30,
        "priority": priority,
        "containers": [{"name": "main", "image": "busybox:1", "imagePullPolicy": "IfNotPresent"}]}});
    server.api().put(&format!("{PODS}/{name}"), &serde_json::from_value::<Pod>(pod)?);
    Ok(())
}

/// The manifest of a static pod of this priority.
fn static_pod(name: &str, priority: i32) -> String {
    manifest_with(name, json!({"priority": priority, "containers": [{"name": "main", "image": "busybox:1"}]}))
}

/// Whether a pod was ended by a shutdown, in upstream's words.
fn is_terminated(pod: &Pod) -> bool {
    let Some(status) = &pod.status else { return false };
    let message = Some("Pod was terminated in response to imminent node shutdown.");
    let disruption = status.conditions.iter().flatten().find(|c| c.type_ == "DisruptionTarget");
    status.phase.as_deref() == Some("Failed")
        && status.reason.as_deref() == Some("Terminated")
        && status.message.as_deref() == message
        && disruption.is_some_and(|it| {
            it.status == "True"
                && it.reason.as_deref() == Some("TerminationByKubelet")
                && it.message.as_deref() == message
        })
}

/// Waits for the Node's condition Ready with this status and reason, and a message with this text.
async fn wait_for_ready(server: &FakeApiServer, host: &FakeHost, status: &str, text: &str) -> Result<()> {
    wait_for(&format!("the node's condition Ready {status}"), SOON, async || {
        let node = server.api().get::<Node>(&format!("/api/v1/nodes/{}", host.node()));
        let conditions = node.and_then(|node| node.status?.conditions).unwrap_or_default();
        let ready = conditions.into_iter().find(|c| c.type_ == "Ready");
        let is_it = ready.as_ref().is_some_and(|ready| {
            ready.status == status && ready.message.as_deref().is_some_and(|message| message.contains(text))
        });
        Ok(if is_it { Look::Done(()) } else { Look::NotYet(format!("{ready:?}")) })
    })
    .await
}

/// Waits for an event of the Node with this message.
async fn wait_for_event(server: &FakeApiServer, text: &str) -> Result<()> {
    wait_for(&format!("the event {text:?}"), SOON, async || {
        let events = server.api().list::<Event>("/api/v1/namespaces/default/events");
        let is_it = |event: &Event| {
            event.reason.as_deref() == Some("Shutdown")
                && event.message.as_deref() == Some(text)
                && event.involved_object.kind.as_deref() == Some("Node")
        };
        Ok(if events.iter().any(is_it) {
            Look::Done(())
        } else {
            Look::NotYet(format!("{} events", events.len()))
        })
    })
    .await
}

/// The pods whose containers were stopped, in this order.
fn stopped(host: &FakeHost) -> Vec<String> {
    let stops = host.runtime().calls_of(Operation::StopContainer);
    stops.into_iter().filter_map(|call| call.pod).map(|pod| pod.to_string()).collect()
}

/// How many containers of a pod were made so far.
fn made(host: &FakeHost, pod: &str) -> usize {
    let created = host.runtime().calls_of(Operation::CreateContainer);
    created.iter().filter(|call| call.pod.as_ref().is_some_and(|uid| uid.as_str() == pod)).count()
}

fn uid_of(server: &FakeApiServer, name: &str) -> Result<String> {
    let pod = server.api().get::<Pod>(&format!("{PODS}/{name}")).context("no such pod")?;
    pod.metadata.uid.context("a pod without a UID")
}

/// The host goes down, with all that runs on it, and boots.
async fn reboot(host: &FakeHost, logind: &FakeLogind, daemon: Daemon) -> Result<()> {
    daemon.stop().await?;
    logind.boot();
    let gone = Duration::ZERO;
    host.runtime().restart(Restart { down: gone, recovering: gone, takes_pods_along: true });
    Ok(())
}

#[tokio::test]
async fn pods_end_in_order_before_the_host_goes_down_and_only_static_ones_return() {
    let (host, logind) = host().await.unwrap();
    let server = FakeApiServer::start().unwrap();
    let daemon = host.join(&server, PERIODS).await.unwrap();
    give(&server, &host, "vital", CRITICAL).unwrap();
    give(&server, &host, "web", 0).unwrap();
    host.write_manifest("agent.json", &static_pod("agent", CRITICAL + 1000)).unwrap();
    let mirror = format!("agent-{}", host.node());
    for name in ["vital", "web", &mirror] {
        wait_for_shown(&server, name, is_ready).await.unwrap();
    }
    wait_for_ready(&server, &host, "True", "kubelet is posting ready status").await.unwrap();
    let lock = ["shutdown", "kubelet", "Kubelet needs time to handle node shutdown", "delay"];
    assert_eq!(logind.held(), [lock.map(str::to_owned)]);
    assert_eq!(logind.reloads(), 0);

    logind.prepare(true).unwrap();
    logind.wait_for_locks(0, SOON).await.unwrap();
    // What the API server has at this moment is what it has while the host is down.
    let shown = |name: &str| server.api().get::<Pod>(&format!("{PODS}/{name}")).unwrap();
    for name in ["vital", "web", &mirror] {
        assert!(is_terminated(&shown(name)), "{name}: {:?}", shown(name).status);
    }
    let (vital, web) = (uid_of(&server, "vital").unwrap(), uid_of(&server, "web").unwrap());
    let order = stopped(&host);
    assert_eq!(order[0], web, "{order:?}");
    let mut last = order[1..].to_vec();
    last.sort();
    let mut expected = vec![vital.clone(), uid("agent")];
    expected.sort();
    assert_eq!(last, expected);
    wait_for_ready(&server, &host, "False", "node is shutting down").await.unwrap();
    wait_for_event(&server, "Shutdown manager detected shutdown event").await.unwrap();
    let state = fs::read_to_string(host.directory().join("kubelet/graceful_node_shutdown_state")).unwrap();
    let state: serde_json::Value = serde_json::from_str(&state).unwrap();
    assert!(state["startTime"].as_str() <= state["endTime"].as_str(), "{state}");
    let explained = daemon.command(&["explain"]).output().unwrap();
    let explained = String::from_utf8_lossy(&explained.stdout).into_owned();
    assert!(explained.contains("has been shutting down since"), "{explained}");
    let timeline = daemon.cli(&["timeline", "web"]).unwrap();
    assert!(timeline.contains("shutdown") && timeline.contains("within 20 s"), "{timeline}");
    // Nothing starts any more.
    give(&server, &host, "late", 0).unwrap();
    let late = wait_for_shown(&server, "late", |pod| {
        pod.status.as_ref().is_some_and(|status| status.reason.as_deref() == Some("NodeShutdown"))
    });
    let late = late.await.unwrap().status.unwrap();
    assert_eq!(
        late.message.as_deref(),
        Some("Pod was rejected: Pod was rejected as the node is shutting down.")
    );

    let before = [made(&host, &vital), made(&host, &web)];
    reboot(&host, &logind, daemon).await.unwrap();
    let daemon = host.join(&server, PERIODS).await.unwrap();
    daemon.wait_for_pod("agent", SOON, is_ready).await.unwrap();
    wait_for_shown(&server, &mirror, is_ready).await.unwrap();
    wait_for_ready(&server, &host, "True", "kubelet is posting ready status").await.unwrap();
    for name in ["vital", "web"] {
        assert!(is_terminated(&shown(name)), "{name}: {:?}", shown(name).status);
    }
    assert_eq!([made(&host, &vital), made(&host, &web)], before, "pods of the API server stay ended");
    let mirrored = shown(&mirror).status.unwrap();
    assert_eq!((mirrored.reason, mirrored.message), (None, None));
    logind.wait_for_locks(1, SOON).await.unwrap();
    daemon.stop().await.unwrap();
    logind.wait_for_locks(0, SOON).await.unwrap();
}

#[tokio::test]
async fn pods_stay_ended_if_the_api_server_hears_of_it_only_after_the_boot() {
    let (host, logind) = host().await.unwrap();
    let mut server = FakeApiServer::start().unwrap();
    let daemon = host.join(&server, PERIODS).await.unwrap();
    give(&server, &host, "web", 0).unwrap();
    wait_for_shown(&server, "web", is_ready).await.unwrap();
    let web = uid_of(&server, "web").unwrap();
    server.stop();
    logind.prepare(true).unwrap();
    logind.wait_for_locks(0, SOON).await.unwrap();
    assert_eq!(stopped(&host), [&*web]);
    let before = made(&host, &web);
    reboot(&host, &logind, daemon).await.unwrap();

    let daemon = host.join(&server, PERIODS).await.unwrap();
    daemon.wait_for_api_pod("web", SOON, is_terminated).await.unwrap();
    server.resume().unwrap();
    wait_for_shown(&server, "web", is_terminated).await.unwrap();
    assert_eq!(made(&host, &web), before);
    // Once it is deleted, nothing of it is remembered.
    server.api().delete(&format!("{PODS}/web"), None);
    crate::support::wait_until_stored(&host, hostlet_store::Table::EndedByShutdown, |rows| rows.is_empty())
        .await
        .unwrap();
    daemon.stop().await.unwrap();
}

#[tokio::test]
async fn a_cancelled_shutdown_leaves_a_node_that_works() {
    let (host, logind) = host().await.unwrap();
    let server = FakeApiServer::start().unwrap();
    let daemon = host.join(&server, PERIODS).await.unwrap();
    give(&server, &host, "web", 0).unwrap();
    host.write_manifest("agent.json", &static_pod("agent", 0)).unwrap();
    let mirror = format!("agent-{}", host.node());
    for name in ["web", &mirror] {
        wait_for_shown(&server, name, is_ready).await.unwrap();
    }
    logind.prepare(true).unwrap();
    logind.wait_for_locks(0, SOON).await.unwrap();
    wait_for_shown(&server, &mirror, is_terminated).await.unwrap();
    logind.prepare(false).unwrap();
    logind.wait_for_locks(1, SOON).await.unwrap();
    wait_for_event(&server, "Shutdown manager detected shutdown cancellation").await.unwrap();
    daemon.wait_for_pod("agent", SOON, is_ready).await.unwrap();
    wait_for_shown(&server, &mirror, is_ready).await.unwrap();
    wait_for_ready(&server, &host, "True", "kubelet is posting ready status").await.unwrap();
    give(&server, &host, "next", 0).unwrap();
    wait_for_shown(&server, "next", is_ready).await.unwrap();
    let web = server.api().get::<Pod>(&format!("{PODS}/web")).unwrap();
    assert!(is_terminated(&web), "{:?}", web.status);
    daemon.stop().await.unwrap();
}

#[tokio::test]
async fn the_bus_may_be_missing_appear_and_restart() {
    let mut logind = FakeLogind::without_bus(DELAY).unwrap();
    let mut host = FakeHost::start().unwrap();
    host.set_variable("DBUS_SYSTEM_BUS_ADDRESS", logind.address());
    host.runtime().add_image("busybox:1");
    let daemon = host.start_hostlet(PERIODS).await.unwrap();
    host.write_manifest("web.json", &static_pod("web", 0)).unwrap();
    wait_until_ready(&daemon, &["web"]).await.unwrap();
    let explained = daemon.command(&["explain"]).output().unwrap();
    let explained = String::from_utf8_lossy(&explained.stdout).into_owned();
    assert!(explained.contains("a shutdown of this host does not wait for the pods"), "{explained}");

    logind.resume().await.unwrap();
    logind.wait_for_locks(1, SOON).await.unwrap();
    let quiet = wait_for("a node without problems", SOON, async || {
        let output = daemon.command(&["explain"]).output()?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        Ok(if output.status.success() { Look::Done(()) } else { Look::NotYet(text) })
    });
    quiet.await.unwrap();
    let descriptors = || fs::read_dir(format!("/proc/{}/fd", daemon.pid())).unwrap().count();
    let before = descriptors();
    for round in 1..=3 {
        logind.crash_bus().unwrap();
        assert_eq!(logind.held().len(), 1, "the lock does not depend on the bus");
        logind.resume().await.unwrap();
        wait_for("the lock is taken again", SOON, async || {
            let (given, held) = (logind.given(), logind.held().len());
            let is_it = given == round + 1 && held == 1;
            Ok(if is_it { Look::Done(()) } else { Look::NotYet(format!("{given} given, {held} held")) })
        })
        .await
        .unwrap();
    }
    assert!(descriptors() <= before + 2, "{before} descriptors, then {}", descriptors());
    assert_eq!(daemon.log().matches("a shutdown of this host waits for its pods").count(), 4);

    // The pods of a host without a cluster end too, and start again with it.
    logind.prepare(true).unwrap();
    logind.wait_for_locks(0, SOON).await.unwrap();
    daemon.wait_for_pod("web", SOON, is_terminated).await.unwrap();
    reboot(&host, &logind, daemon).await.unwrap();
    let daemon = host.start_hostlet(PERIODS).await.unwrap();
    wait_until_ready(&daemon, &["web"]).await.unwrap();
    daemon.stop().await.unwrap();
}

#[tokio::test]
async fn logind_is_configured_to_wait_long_enough() {
    let logind = FakeLogind::start(Duration::from_secs(5)).await.unwrap();
    let mut host = FakeHost::start().unwrap();
    host.set_variable("DBUS_SYSTEM_BUS_ADDRESS", logind.address());
    let file = host.make_private_etc().unwrap().join("systemd/logind.conf.d/99-kubelet.conf");
    logind.set_config(file.clone());
    let daemon = host.start_hostlet(PERIODS).await.unwrap();
    logind.wait_for_locks(1, SOON).await.unwrap();
    let text = fs::read_to_string(&file).unwrap();
    assert_eq!(text, "# Kubelet logind override\n[Login]\nInhibitDelayMaxSec=30\n");
    assert_eq!(logind.reloads(), 1);
    let explained = daemon.command(&["explain"]).output().unwrap();
    assert!(explained.status.success(), "{explained:?}");
    daemon.stop().await.unwrap();
    // The next daemon finds it long enough.
    let daemon = host.start_hostlet(PERIODS).await.unwrap();
    logind.wait_for_locks(1, SOON).await.unwrap();
    assert_eq!(logind.reloads(), 1);
    daemon.stop().await.unwrap();
}
