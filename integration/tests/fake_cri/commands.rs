//! Commands over the daemon's socket: `exec`, `events`, `restart`, `node`.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on is to fail")]

use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use hostlet_integration::Daemon;
use hostlet_integration::fake_cri::FakeHost;
use hostlet_proto::cri::ContainerState;
use hostlet_runtime::cri::ExecOutput;
use hostlet_runtime::cri::fake::{Exec, OnTerm, Script};
use hostlet_store::Table;
use serde_json::json;

use crate::support::{
    SOON, containers_of, manifest, manifest_with, only_container, statuses, stderr, stdout, wait_until_ready,
    write_pods,
};

/// `hostlet exec`, whose own flags come before the command.
fn exec(daemon: &Daemon, flags: &[&str], command: &[&str]) -> Output {
    let mut exec = Command::new(daemon.program());
    exec.arg("exec").args(flags).arg("--socket").arg(daemon.socket()).arg("--").args(command);
    exec.output().unwrap()
}

#[tokio::test]
async fn a_command_prints_and_exits_as_in_its_container() {
    let host = FakeHost::start().unwrap();
    let output = ExecOutput { stdout: b"to\0stdout".to_vec(), stderr: b"to stderr".to_vec(), exit_code: 42 };
    host.runtime().script_exec(&["fails"], Exec { takes: Duration::ZERO, output });
    host.write_manifest("two.json", &manifest("two", &["a", "b"])).unwrap();
    let daemon = host.start_hostlet("").await.unwrap();
    wait_until_ready(&daemon, &["two"]).await.unwrap();
    let done = exec(&daemon, &["two", "-c", "a"], &["fails"]);
    assert_eq!(done.status.code(), Some(42), "{done:?}");
    assert_eq!((&done.stdout[..], &done.stderr[..]), (&b"to\0stdout"[..], &b"to stderr"[..]));
    let done = exec(&daemon, &["two", "-c", "b", "-n", "default"], &["echo", "-n", "x"]);
    assert!(done.status.success() && stdout(&done) == "echo -n x\n", "{done:?}");
    for (flags, command, said) in
        [(&["two"][..], &["ls"][..], "a container name must be specified"), (&["none"], &["ls"], "not found")]
    {
        let failed = exec(&daemon, flags, command);
        assert!(failed.status.code() == Some(1) && stderr(&failed).contains(said), "{failed:?}");
    }
    let mut copies = Command::new(daemon.program());
    copies.args(["exec", "two", "-c", "a", "-i", "--socket"]).arg(daemon.socket()).args(["--", "fails"]);
    let mut copies =
        copies.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let input = vec![b'x'; 3 << 20];
    let mut stdin = copies.stdin.take().unwrap();
    let writing = std::thread::spawn(move || stdin.write_all(&input));
    let done = copies.wait_with_output().unwrap();
    writing.join().unwrap().unwrap();
    assert_eq!(done.status.code(), Some(42));
    assert_eq!(done.stdout.len(), (3 << 20) + b"to\0stdout".len());
    host.runtime().script("a", Script::exits(Duration::ZERO, 1));
    host.runtime().exit_container(&containers_id(&host, "two", "a"), 1);
    let ended = |pod: &k8s_openapi::api::core::v1::Pod| statuses(pod).iter().any(|status| !status.ready);
    daemon.wait_for_pod("two", SOON, ended).await.unwrap();
    let failed = exec(&daemon, &["two", "-c", "a"], &["ls"]);
    assert!(failed.status.code() == Some(1) && stderr(&failed).contains("not running"), "{failed:?}");
}

/// The identifier of a container of a pod.
fn containers_id(host: &FakeHost, pod: &str, name: &str) -> hostlet_base::ContainerId {
    let uid = crate::support::uid(pod);
    let found = host.runtime().wire_containers().into_iter().find(|container| {
        container.labels["io.kubernetes.pod.uid"] == uid
            && container.labels["io.kubernetes.container.name"] == name
    });
    found.unwrap().id.into()
}

#[tokio::test]
async fn a_restart_replaces_the_container_once_and_counts() {
    let host = FakeHost::start().unwrap();
    write_pods(&host, &["web", "other"]).unwrap();
    let daemon = host.start_hostlet("").await.unwrap();
    wait_until_ready(&daemon, &["web", "other"]).await.unwrap();
    let (before, other) = (only_container(&host, "web").unwrap(), only_container(&host, "other").unwrap());
    let said = daemon.cli(&["restart", "web"]).unwrap();
    assert!(said.contains("container main is being restarted"), "{said}");
    let restarted = |pod: &k8s_openapi::api::core::v1::Pod| {
        statuses(pod).iter().all(|status| status.ready && status.restart_count == 1)
    };
    daemon.wait_for_pod("web", SOON, restarted).await.unwrap();
    let (exited, runs) = (ContainerState::ContainerExited, ContainerState::ContainerRunning);
    let main = || "main".to_owned();
    assert_eq!(containers_of(&host, "web"), [(main(), 0, exited), (main(), 1, runs)]);
    assert_eq!(host.runtime().calls_of(hostlet_runtime::cri::Operation::StopContainer).len(), 1);
    assert_eq!(only_container(&host, "other").unwrap(), other);
    assert!(host.runtime().wire_containers().iter().any(|c| c.id == before));
    // It is done, so nobody remembers it.
    crate::support::wait_until_stored(&host, Table::Restarts, |rows| rows.is_empty()).await.unwrap();
    let events = daemon.cli(&["events", "web"]).unwrap();
    assert!(events.contains("will be restarted on request"), "{events}");
}

#[tokio::test]
async fn a_restart_that_was_cut_short_goes_on_in_the_next_daemon() {
    let host = FakeHost::start().unwrap();
    host.runtime()
        .script("slow", Script::forever().on_term(OnTerm::Exits { after: Duration::from_secs(3), code: 0 }));
    let spec = json!({
        "restartPolicy": "OnFailure",
        "terminationGracePeriodSeconds": 60,
        "containers": [{"name": "slow", "image": "busybox:1"}],
    });
    host.write_manifest("slow.json", &manifest_with("slow", spec)).unwrap();
    let daemon = host.start_hostlet("").await.unwrap();
    wait_until_ready(&daemon, &["slow"]).await.unwrap();
    daemon.cli(&["restart", "slow"]).unwrap();
    // Its exit code, 0, would end the pod.
    daemon.kill().unwrap();
    let daemon = host.start_hostlet("").await.unwrap();
    let restarted = |pod: &k8s_openapi::api::core::v1::Pod| {
        statuses(pod).iter().all(|status| status.ready && status.restart_count == 1)
    };
    daemon.wait_for_pod("slow", SOON, restarted).await.unwrap();
}

#[tokio::test]
async fn a_pod_that_runs_once_is_restarted_only_by_force() {
    let host = FakeHost::start().unwrap();
    let spec = json!({"restartPolicy": "Never", "containers": [{"name": "main", "image": "busybox:1"}]});
    host.write_manifest("once.json", &manifest_with("once", spec)).unwrap();
    let daemon = host.start_hostlet("").await.unwrap();
    wait_until_ready(&daemon, &["once"]).await.unwrap();
    let refused = daemon.command(&["restart", "once"]).output().unwrap();
    assert!(
        refused.status.code() == Some(1) && stderr(&refused).contains("restartPolicy Never"),
        "{refused:?}"
    );
    daemon.cli(&["restart", "once", "--force"]).unwrap();
    let restarted = |pod: &k8s_openapi::api::core::v1::Pod| {
        statuses(pod).iter().all(|status| status.ready && status.restart_count == 1)
    };
    daemon.wait_for_pod("once", SOON, restarted).await.unwrap();
}

#[tokio::test]
async fn events_are_kept_and_watched_without_an_api_server() {
    let host = FakeHost::start().unwrap();
    let daemon = host.start_hostlet("").await.unwrap();
    let mut watch =
        daemon.command(&["events", "later", "--watch", "-o", "json"]).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(watch.stdout.take().unwrap()).lines();
    write_pods(&host, &["first", "later"]).unwrap();
    wait_until_ready(&daemon, &["first", "later"]).await.unwrap();
    let seen = tokio::task::spawn_blocking(move || {
        let event: serde_json::Value = serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap();
        event["name"].as_str().unwrap().to_owned()
    });
    assert!(seen.await.unwrap().starts_with("later-"));
    watch.kill().unwrap();
    watch.wait().unwrap();
    let events = daemon.cli(&["events", "first"]).unwrap();
    assert!(events.contains("Started") && events.contains("default/first-"), "{events}");
    assert!(!events.contains("later-"), "{events}");
    let all = daemon.cli(&["events", "-o", "json"]).unwrap();
    assert!(
        all.lines().all(|line| serde_json::from_str::<serde_json::Value>(line).is_ok())
            && all.contains("later-")
    );
}

#[tokio::test]
async fn the_node_is_described_standalone() {
    let host = FakeHost::start().unwrap();
    let daemon = host.start_hostlet("systemReserved: {memory: 64Mi}").await.unwrap();
    let ready = hostlet_integration::wait_for("the node is ready", SOON, async || {
        let output = daemon.command(&["node"]).output()?;
        let text = stdout(&output);
        Ok(match output.status.success() {
            true => hostlet_integration::Look::Done(text),
            false => hostlet_integration::Look::NotYet(text),
        })
    });
    let text = ready.await.unwrap();
    for part in [host.node(), "containerd://1.6.20", "64Mi", "ALLOCATABLE", "this host is standalone"] {
        assert!(text.contains(part), "{part} is not in {text}");
    }
    let json: serde_json::Value =
        serde_json::from_str(&daemon.cli(&["node", "-o", "json"]).unwrap()).unwrap();
    assert_eq!(json["reserved"]["memory"], "64Mi");
    assert!(daemon.cli(&["node", "-o", "yaml"]).unwrap().contains("evictionThresholds"));
    let explained = stdout(&daemon.command(&["explain"]).output().unwrap());
    assert!(explained.contains("it has no known problems"), "{explained}");
}

/// As behind `head -1`, at its worst: the reader leaves before anything is written.
#[tokio::test]
async fn a_reader_that_leaves_is_no_failure() {
    let host = FakeHost::start().unwrap();
    write_pods(&host, &["web"]).unwrap();
    let daemon = host.start_hostlet("").await.unwrap();
    wait_until_ready(&daemon, &["web"]).await.unwrap();
    for arguments in [
        &["pods"][..],
        &["pods", "-o", "json"],
        &["pods", "-o", "yaml"],
        &["pods", "--watch"],
        &["top", "-o", "yaml"],
        &["node", "-o", "json"],
        &["events", "-o", "yaml"],
        &["events", "--watch"],
        &["explain"],
        &["explain", "web", "-o", "yaml"],
        &["timeline", "web"],
        &["images"],
        &["plugins"],
    ] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let output = daemon.command(arguments).stdout(writer).output().unwrap();
        let said = stderr(&output);
        assert!(output.status.success() && !said.contains("hostlet:"), "{arguments:?}: {said}");
    }
}

#[tokio::test]
async fn top_prints_all_pods_once_where_there_is_no_terminal() {
    let host = FakeHost::start().unwrap();
    write_pods(&host, &["web"]).unwrap();
    let daemon = host.start_hostlet("").await.unwrap();
    wait_until_ready(&daemon, &["web"]).await.unwrap();
    let printed = daemon.cli(&["top"]).unwrap();
    let lines: Vec<&str> = printed.lines().collect();
    assert!(lines[0].starts_with("NAMESPACE  NAME"), "{printed}");
    assert!(lines.len() == 2 && lines[1].contains("web-") && lines[1].contains("Running"), "{printed}");
    let report = daemon.cli(&["top", "-o", "json", "--sort-by", "name"]).unwrap();
    let report: serde_json::Value = serde_json::from_str(&report).unwrap();
    assert!(report["cpus"].as_u64() > Some(0) && report["used"]["cpuNanoCores"].is_u64(), "{report}");
    assert_eq!(report["pods"][0]["status"], "Running", "{report}");
}
