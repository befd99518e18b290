//! `kubectl logs`, as the stock kubelet answers it: options, errors, restarts of containers, and following through rotations.

use std::io::Read;
use std::process::{Child, Stdio};

use anyhow::Result;
use hostlet_integration::cluster::{Agent, Tenant};
use hostlet_integration::{Look, wait_for};
use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};
use tokio::task::{JoinHandle, spawn_blocking};
use tokio::time::timeout;

use crate::support::{IDLE, LATER, SOON, container, is_ready, name, pod, run, statuses, wait_for_object};

/// Parts of a long line, whose rest is written later, with a line of another stream in between.
const WRITER: &str = "echo out; echo err >&2; head -c 40000 /dev/zero | tr '\\0' x; echo; printf 'no end'; ";

/// What `kubectl logs` of a pod prints, or its error.
fn logs(tenant: &Tenant, pod: &str, options: &[&str]) -> Result<String> {
    let args = [&["--namespace", tenant.namespace(), "logs", pod], options].concat();
    tenant.cluster().kubectl(&args)
}

fn error(tenant: &Tenant, pod: &str, options: &[&str]) -> String {
    format!("{:?}", logs(tenant, pod, options).unwrap_err())
}

/// The answer of the kubelet itself to a request by way of the API server.
fn kubelet(tenant: &Tenant, path: &str) -> Result<String> {
    let node = tenant.nodes[0].name();
    let path = format!("/api/v1/nodes/{node}/proxy/containerLogs/{}/{path}", tenant.namespace());
    tenant.cluster().kubectl(&["get", "--raw", &path])
}

#[tokio::test]
async fn kubectl_prints_what_the_stock_kubelet_answers() {
    let tenant = Tenant::new("logs", 1).await.unwrap();
    let mut object = pod("writer", &format!("{WRITER}{IDLE}"));
    let late = json!({"name": "late", "image": "none.invalid/none:1", "imagePullPolicy": "Never"});
    object["spec"]["containers"].as_array_mut().unwrap().push(late);
    tenant.create_pod(object).await.unwrap();
    let long = "x".repeat(40_000);
    let whole = format!("out\nerr\n{long}\nno end");
    wait_for("the whole log", SOON, async || {
        let text = logs(&tenant, "writer", &["-c", "main"])?;
        Ok(if text.len() == whole.len() {
            Look::Done(())
        } else {
            Look::NotYet(format!("{} bytes", text.len()))
        })
    })
    .await
    .unwrap();
    let main = |options: &[&str]| logs(&tenant, "writer", &[&["-c", "main"], options].concat()).unwrap();
    let mut lines: Vec<String> = main(&[]).lines().map(str::to_owned).collect();
    // The two streams are read independently.
    lines[..2].sort();
    assert_eq!(lines, ["err", "out", &long, "no end"]);
    assert_eq!(main(&["--tail", "1"]), "no end");
    assert_eq!(main(&["--tail", "0"]), "");
    assert_eq!(main(&["--limit-bytes", "10"]).len(), 10);
    assert_eq!(main(&["--since", "1h"]).len(), whole.len());
    assert_eq!(main(&["--since-time", "2100-01-01T00:00:00Z"]), "");
    let stamped = main(&["--timestamps", "--tail", "1"]);
    let (time, text) = stamped.split_once(' ').unwrap();
    assert_eq!((time.len(), text), ("2026-01-01T00:00:00.000000000Z".len(), "no end"), "{time}");

    let said = error(&tenant, "writer", &["-c", "main", "--previous"]);
    assert!(said.contains("previous terminated container \"main\" in pod \"writer\" not found"), "{said}");
    let said = error(&tenant, "writer", &["-c", "late"]);
    let waiting = "container \"late\" in pod \"writer\" is waiting to start: ErrImageNeverPull";
    assert!(said.contains(waiting), "{said}");
    for (path, said) in [
        ("none/main", "pod \"none\" does not exist"),
        ("writer/none", "container \"none\" not found in pod \"writer\""),
        ("writer/main?tailLines=x", "Unable to decode query."),
        ("writer/main?tailLines=-1", "Invalid request."),
        ("writer/main?stream=Stdout&tailLines=1", "Invalid request."),
        ("writer/main?stream=Stderr", "unable to return the given log stream: \"Stderr\""),
    ] {
        let error = format!("{:?}", kubelet(&tenant, path).unwrap_err());
        assert!(error.contains(said), "{path}: {error}");
    }
    assert_eq!(kubelet(&tenant, "writer/main?tail=all&timestamps=false").unwrap().len(), whole.len());
}

#[tokio::test]
async fn one_stream_is_read_with_the_feature_gate() {
    let gate = json!({"featureGates": {"PodLogsQuerySplitStreams": true}});
    let tenant = Tenant::with("streams", 1, &gate).await.unwrap();
    run(&tenant, pod("writer", &format!("echo out; echo err >&2; {IDLE}"))).await.unwrap();
    for (stream, text) in [("Stdout", "out\n"), ("Stderr", "err\n")] {
        wait_for(stream, SOON, async || {
            let found = kubelet(&tenant, &format!("writer/main?stream={stream}"))?;
            Ok(if found == text { Look::Done(()) } else { Look::NotYet(found) })
        })
        .await
        .unwrap();
    }
}

/// A running `kubectl logs -f`, and what it prints.
fn follow(tenant: &Tenant, pod: &str) -> (Child, JoinHandle<String>) {
    let mut command = tenant.cluster().kubectl_command().unwrap();
    command.args(["--namespace", tenant.namespace(), "logs", "-f", pod]);
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut output = child.stdout.take().unwrap();
    let reading = spawn_blocking(move || {
        let mut text = String::new();
        output.read_to_string(&mut text).unwrap();
        text
    });
    (child, reading)
}

#[tokio::test]
async fn following_ends_with_the_instance_and_the_previous_one_stays_readable() {
    let tenant = Tenant::new("followed", 1).await.unwrap();
    let created = run(&tenant, pod("ending", &format!("cat /proc/uptime; {IDLE}"))).await.unwrap();
    let (mut child, text) = follow(&tenant, "ending");
    let before = wait_for("the log", SOON, async || {
        let text = logs(&tenant, "ending", &[])?;
        Ok(if text.ends_with('\n') { Look::Done(text) } else { Look::NotYet(text) })
    })
    .await
    .unwrap();
    let id = statuses(&created)[0].container_id.clone().unwrap();
    let id = id.split_once("://").unwrap().1;
    tenant.nodes[0].host().cri().kill_container(id).await.unwrap();
    assert_eq!(timeout(SOON, text).await.unwrap().unwrap(), before);
    assert!(child.wait().unwrap().success());
    let restarted = |pod: &Pod| is_ready(pod) && statuses(pod)[0].restart_count == 1;
    wait_for_object(&tenant.api(), &name(&created), LATER, restarted).await.unwrap();
    assert_eq!(logs(&tenant, "ending", &["--previous"]).unwrap(), before);
    assert_ne!(logs(&tenant, "ending", &[]).unwrap(), before);
}

fn rotating() -> Value {
    json!({"containerLogMaxSize": "200Ki", "containerLogMaxFiles": 60, "containerLogMonitorInterval": "3s"})
}

#[tokio::test]
async fn following_through_rotations_loses_and_doubles_no_line() {
    let tenant = Tenant::with("rotated", 1, &rotating()).await.unwrap();
    let script =
        "n=0; while [ $n -lt 200 ]; do seq $((n * 1000)) $((n * 1000 + 999)); n=$((n + 1)); sleep 0.2; done";
    let mut object = pod("writer", script);
    object["spec"]["restartPolicy"] = json!("Never");
    object["spec"]["containers"] = json!([container(script)]);
    run(&tenant, object).await.unwrap();
    let (mut child, text) = follow(&tenant, "writer");
    let text = timeout(LATER, text).await.unwrap().unwrap();
    assert!(child.wait().unwrap().success());
    let numbers: Vec<u64> = text.lines().map(|line| line.parse().unwrap()).collect();
    assert_eq!((numbers.len(), numbers.last()), (200_000, Some(&199_999)));
    assert!(numbers.iter().zip(0..).all(|(found, expected)| *found == expected));
    match tenant.nodes[0].agent() {
        // It reads the current file only.
        Agent::Stock => {}
        Agent::Hostlet => assert_eq!(logs(&tenant, "writer", &[]).unwrap(), text),
    }
}
