//! `kubectl logs`, as the stock kubelet answers it: options, errors, restarts of containers, and following through rotations.

use std::io::Read;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result};
use hostlet_integration::cluster::{Agent, Tenant};
use hostlet_integration::{Look, wait_for};
use http::Request;
use http_body_util::BodyExt;
use k8s_openapi::api::core::v1::Pod;
use kube::client::Body;
use serde_json::{Value, json};
use tokio::task::{JoinHandle, spawn_blocking};
use tokio::time::timeout;

use crate::support::{IDLE, LATER, SOON, is_ready, name, pod, run, statuses, wait_for_object};

/// Both streams, and a line that the runtime splits.
const WRITER: &str = "echo out; echo err >&2; head -c 40000 /dev/zero | tr '\\0' x; echo; echo end; ";

/// What `kubectl logs` of a pod prints, or its error.
fn logs(tenant: &Tenant, pod: &str, options: &[&str]) -> Result<String> {
    let args = [&["--namespace", tenant.namespace(), "logs", pod], options].concat();
    tenant.cluster().kubectl(&args)
}

fn error(tenant: &Tenant, pod: &str, options: &[&str]) -> String {
    format!("{:?}", logs(tenant, pod, options).unwrap_err())
}

/// The status and text of the kubelet's own answer, by way of the API server.
async fn kubelet(tenant: &Tenant, path: &str) -> Result<(u16, String)> {
    let node = tenant.nodes[0].name();
    let path = format!("/api/v1/nodes/{node}/proxy/containerLogs/{}/{path}", tenant.namespace());
    let response = tenant.client().send(Request::get(path).body(Body::empty())?).await?;
    let status = response.status().as_u16();
    let body = response.into_body().collect().await?.to_bytes();
    Ok((status, String::from_utf8(body.to_vec())?))
}

#[tokio::test]
async fn kubectl_prints_what_the_stock_kubelet_answers() {
    let tenant = Tenant::new("logs", 1).await.unwrap();
    let mut object = pod("writer", &format!("{WRITER}{IDLE}"));
    let late = json!({"name": "late", "image": "none.invalid/none:1", "imagePullPolicy": "Never"});
    object["spec"]["containers"].as_array_mut().unwrap().push(late);
    tenant.create_pod(object).await.unwrap();
    let long = "x".repeat(40_000);
    let whole = format!("out\nerr\n{long}\nend\n");
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
    let last = format!("{}\n", lines.last().unwrap());
    // The two streams are read independently.
    lines.remove(lines.iter().position(|line| line == "err").unwrap());
    assert_eq!(lines, ["out", &long, "end"]);
    assert_eq!(main(&["--tail", "1"]), last);
    assert_eq!(main(&["--tail", "0"]), "");
    assert_eq!(main(&["--limit-bytes", "10"]).len(), 10);
    assert_eq!(main(&["--since", "1h"]).len(), whole.len());
    assert_eq!(main(&["--since-time", "2100-01-01T00:00:00Z"]), "");
    let stamped = main(&["--timestamps", "--tail", "1"]);
    let (time, text) = stamped.split_once(' ').unwrap();
    assert_eq!((time.len(), text), ("2026-01-01T00:00:00.000000000Z".len(), "end\n"), "{time}");

    let said = error(&tenant, "writer", &["-c", "main", "--previous"]);
    assert!(said.contains("previous terminated container \"main\" in pod \"writer\" not found"), "{said}");
    let said = error(&tenant, "writer", &["-c", "late"]);
    let waiting = "container \"late\" in pod \"writer\" is waiting to start: ErrImageNeverPull";
    assert!(said.contains(waiting), "{said}");
    for (path, status, said) in [
        ("none/main", 404, "pod \"none\" does not exist"),
        ("writer/none", 404, "container \"none\" not found in pod \"writer\""),
        ("writer/main?tailLines=x", 400, "{\"message\": \"Unable to decode query.\"}"),
        ("writer/main?tailLines=-1", 422, "{\"message\": \"Invalid request.\"}"),
        ("writer/main?stream=Stdout&tailLines=1", 422, "{\"message\": \"Invalid request.\"}"),
        (
            "writer/main?stream=Stderr",
            400,
            "unable to return the given log stream: \"Stderr\". Please enable PodLogsQuerySplitStreams feature gate \
             in kubelet",
        ),
    ] {
        assert_eq!(kubelet(&tenant, path).await.unwrap(), (status, said.to_owned()), "{path}");
    }
    let all = kubelet(&tenant, "writer/main?tail=all&timestamps=false").await.unwrap();
    assert_eq!((all.0, all.1.len()), (200, whole.len()));
}

#[tokio::test]
async fn one_stream_is_read_with_the_feature_gate() {
    let gate = json!({"featureGates": {"PodLogsQuerySplitStreams": true}});
    let tenant = Tenant::with("streams", 1, &gate).await.unwrap();
    run(&tenant, pod("writer", &format!("echo out; echo err >&2; {IDLE}"))).await.unwrap();
    for (stream, text) in [("Stdout", "out\n"), ("Stderr", "err\n")] {
        wait_for(stream, SOON, async || {
            let (_, found) = kubelet(&tenant, &format!("writer/main?stream={stream}")).await?;
            Ok(if found == text { Look::Done(()) } else { Look::NotYet(found) })
        })
        .await
        .unwrap();
    }
}

/// A running program that follows a log, and what it prints.
struct Follower {
    child: Child,
    text: JoinHandle<String>,
}

impl Follower {
    fn start(mut command: Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut output = child.stdout.take().unwrap();
        let text = spawn_blocking(move || {
            let mut text = String::new();
            output.read_to_string(&mut text).unwrap();
            text
        });
        Self { child, text }
    }

    /// `kubectl logs -f`.
    fn kubectl(tenant: &Tenant, pod: &str) -> Self {
        let mut command = tenant.cluster().kubectl_command().unwrap();
        command.args(["--namespace", tenant.namespace(), "logs", "-f", pod]);
        Self::start(command)
    }

    /// A client of the node itself.
    fn of_the_node(tenant: &Tenant, path: &str) -> Self {
        let path = format!("containerLogs/{}/{path}?follow=true", tenant.namespace());
        let mut command = tenant.cluster().ask_node(tenant.nodes[0].address(), &path);
        command.arg("--no-buffer");
        Self::start(command)
    }

    /// All of the text, once the log has ended.
    async fn ended(mut self, within: Duration) -> String {
        let text = timeout(within, self.text).await.unwrap().unwrap();
        assert!(self.child.wait().unwrap().success());
        text
    }
}

#[tokio::test]
async fn following_ends_with_the_instance_and_the_previous_one_stays_readable() {
    let tenant = Tenant::new("followed", 1).await.unwrap();
    let created = run(&tenant, pod("ending", &format!("cat /proc/uptime; {IDLE}"))).await.unwrap();
    let following = Follower::kubectl(&tenant, "ending");
    let before = wait_for("the log", SOON, async || {
        let text = logs(&tenant, "ending", &[])?;
        Ok(if text.ends_with('\n') { Look::Done(text) } else { Look::NotYet(text) })
    })
    .await
    .unwrap();
    let id = statuses(&created)[0].container_id.clone().unwrap();
    let id = id.split_once("://").unwrap().1;
    tenant.nodes[0].host().cri().kill_container(id).await.unwrap();
    assert_eq!(following.ended(SOON).await, before);
    let restarted = |pod: &Pod| is_ready(pod) && statuses(pod)[0].restart_count == 1;
    wait_for_object(&tenant.api(), &name(&created), LATER, restarted).await.unwrap();
    assert_eq!(logs(&tenant, "ending", &["--previous"]).unwrap(), before);
    assert_ne!(logs(&tenant, "ending", &[]).unwrap(), before);
}

/// The smallest values: logs of 200 KiB, looked at every 3 s.
fn rotating() -> Value {
    json!({"containerLogMaxSize": "200Ki", "containerLogMaxFiles": 60, "containerLogMonitorInterval": "3s"})
}

/// Lines that `NUMBERS` writes, about 9 MB of a log in at least 40 s, so that it is rotated at each look.
const LINES: u32 = 200_000;
const NUMBERS: &str =
    "n=0; while [ $n -lt 200 ]; do seq $((n * 1000)) $((n * 1000 + 999)); n=$((n + 1)); sleep 0.2; done";

/// How often the node has rotated logs.
fn rotations(tenant: &Tenant) -> Result<u32> {
    let path = format!("/api/v1/nodes/{}/proxy/metrics", tenant.nodes[0].name());
    let metrics = tenant.cluster().kubectl(&["get", "--raw", &path])?;
    let mut lines = metrics.lines();
    let count = lines.find_map(|line| line.strip_prefix("hostlet_container_log_rotations_total "));
    Ok(count.context("no count of rotations")?.parse()?)
}

/// Asserts that a text, but for a last line that is cut, is the numbers from 0 on, a line each. Returns how many.
fn sequence(text: &str) -> u32 {
    let mut count = 0;
    for line in text[..text.rfind('\n').map_or(0, |end| end + 1)].lines() {
        assert_eq!(line, count.to_string(), "after {count} lines");
        count += 1;
    }
    count
}

#[tokio::test]
async fn following_through_rotations_loses_and_doubles_no_line() {
    // The stock kubelet may stop at a rotation, and reads the current file only.
    if Agent::chosen().unwrap() == Agent::Stock {
        return;
    }
    let tenant = Tenant::with("rotated", 1, &rotating()).await.unwrap();
    // The API server gives up its connection to a node that stalls for some seconds, which a slow machine may do once.
    for name in ["first", "second", "third"] {
        let mut object = pod(name, NUMBERS);
        object["spec"]["restartPolicy"] = json!("Never");
        run(&tenant, object).await.unwrap();
        let before = rotations(&tenant).unwrap();
        let kubectl = Follower::kubectl(&tenant, name);
        let direct = Follower::of_the_node(&tenant, &format!("{name}/main"));
        assert_eq!(sequence(&direct.ended(LATER).await), LINES);
        let rotated = rotations(&tenant).unwrap() - before;
        assert!(rotated >= 10, "{rotated} rotations");
        assert_eq!(sequence(&logs(&tenant, name, &[]).unwrap()), LINES, "read afterwards");
        if sequence(&kubectl.ended(LATER).await) == LINES {
            return;
        }
    }
    panic!("kubectl never read to the end");
}
