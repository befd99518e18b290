//! `kubectl logs`, as the stock kubelet answers it: options, errors, restarts of containers, and following through rotations.

use std::io::Read;
use std::process::{Child, Stdio};

use anyhow::Result;
use hostlet_integration::cluster::{Agent, Tenant};
use hostlet_integration::{Look, wait_for};
use http::Request;
use http_body_util::BodyExt;
use k8s_openapi::api::core::v1::Pod;
use kube::client::Body;
use serde_json::{Value, json};
use tokio::task::{JoinHandle, spawn_blocking};
use tokio::time::timeout;

use crate::support::{IDLE, LATER, SOON, container, is_ready, name, pod, run, statuses, wait_for_object};

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
    // The two streams are read independently.
    lines[..2].sort();
    assert_eq!(lines, ["err", "out", &long, "end"]);
    assert_eq!(main(&["--tail", "1"]), "end\n");
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
    match tenant.nodes[0].agent() {
        // It may stop at a rotation, and reads the current file only.
        Agent::Stock => {}
        Agent::Hostlet => {
            let expected: String = (0..200_000).map(|number| format!("{number}\n")).collect();
            let mut text = text;
            if text.len() < expected.len() {
                // The API server gives up its connection to a node that stalls for some seconds, here because of the machine.
                assert!(expected.starts_with(&text), "{} lines and others", text.lines().count());
                let (mut child, again) = follow(&tenant, "writer");
                text = timeout(LATER, again).await.unwrap().unwrap();
                assert!(child.wait().unwrap().success());
            }
            assert!(
                text == expected,
                "{} lines, the last one {:?}",
                text.lines().count(),
                text.lines().last()
            );
            assert!(logs(&tenant, "writer", &[]).unwrap() == expected, "read afterwards");
        }
    }
}
