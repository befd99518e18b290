//! Evictions of pods that use more local storage than they may, or than the node has: the real daemon, with the API server's pods and real
//! files.

use std::collections::HashMap;
use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result};
use hostlet_integration::fake_cri::FakeHost;
use hostlet_integration::{FakeApiServer, Look, wait_for};
use hostlet_runtime::cri::Operation;
use k8s_openapi::api::core::v1::{Event, Node, Pod, PodCondition};
use serde_json::{Value, json};

use crate::support::{
    PODS, SOON, is_ready, manifest_with, stdout, uid, wait_for_log, wait_for_shown, wait_until_ready,
};

/// Gives the node a pod with one container, with more in its spec.
fn give(server: &FakeApiServer, host: &FakeHost, name: &str, more: Value) -> Result<()> {
    let mut spec = json!({
        "nodeName": host.node(), "restartPolicy": "Always", "terminationGracePeriodSeconds": 30,
        "containers": [{"name": "main", "image": "busybox:1", "imagePullPolicy": "IfNotPresent"}],
    });
    for (field, value) in more.as_object().into_iter().flatten() {
        spec[field] = value.clone();
    }
    let pod = json!({"metadata": {"name": name, "namespace": "default"}, "spec": spec});
    server.api().put(&format!("{PODS}/{name}"), &serde_json::from_value::<Pod>(pod)?);
    Ok(())
}

fn limits(amount: &str) -> Value {
    json!([{
        "name": "main", "image": "busybox:1", "imagePullPolicy": "IfNotPresent",
        "resources": {"limits": {"ephemeral-storage": amount}},
    }])
}

/// The volume `data` of a pod on the host.
fn volume(host: &FakeHost, uid: &str) -> PathBuf {
    host.directory().join("kubelet/pods").join(uid).join("volumes/kubernetes.io~empty-dir/data")
}

fn is_evicted(pod: &Pod) -> bool {
    pod.status.as_ref().is_some_and(|status| {
        status.phase.as_deref() == Some("Failed") && status.reason.as_deref() == Some("Evicted")
    })
}

#[tokio::test]
async fn pods_beyond_a_limit_are_evicted_and_others_stay() {
    let (host, server) = (FakeHost::start().unwrap(), FakeApiServer::start().unwrap());
    host.runtime().add_image("busybox:1");
    let daemon = host.join(&server, "").await.unwrap();
    let small = json!({"volumes": [{"name": "data", "emptyDir": {"sizeLimit": "1Mi"}}]});
    give(&server, &host, "volume", small.clone()).unwrap();
    give(&server, &host, "modest", small).unwrap();
    let whole = json!({"containers": limits("2Mi"), "volumes": [{"name": "data", "emptyDir": {}}]});
    give(&server, &host, "whole", whole).unwrap();
    give(&server, &host, "layer", json!({"containers": limits("2Mi")})).unwrap();
    let mut written = Vec::new();
    for (name, kib) in [("volume", 1_100), ("modest", 900), ("whole", 2_100)] {
        let pod = wait_for_shown(&server, name, is_ready).await.unwrap();
        let dir = volume(&host, &pod.metadata.uid.unwrap());
        fs::write(dir.join("file"), vec![1; kib << 10]).unwrap();
        written.push(dir);
    }
    wait_for_shown(&server, "layer", is_ready).await.unwrap();
    let of_layer = |labels: &HashMap<String, String>| {
        labels.get("io.kubernetes.pod.name").is_some_and(|pod| pod == "layer")
    };
    let layer = host.runtime().wire_containers().into_iter().find(|c| of_layer(&c.labels)).unwrap();
    host.runtime().set_written(&layer.id.into(), 3 << 20);

    let whole = "Pod ephemeral local storage usage exceeds the total limit of containers 2Mi. ";
    let messages = [
        ("volume", "Usage of EmptyDir volume \"data\" exceeds the limit \"1Mi\". "),
        ("whole", whole),
        ("layer", whole),
    ];
    for (name, message) in messages {
        let status = wait_for_shown(&server, name, is_evicted).await.unwrap().status.unwrap();
        assert_eq!(status.message.as_deref(), Some(message), "{name}");
        let conditions = status.conditions.unwrap_or_default();
        assert!(conditions.iter().all(|condition| condition.type_ != "DisruptionTarget"), "{conditions:?}");
        wait_for("the event of an eviction", SOON, async || {
            let events = server.api().list::<Event>("/api/v1/namespaces/default/events");
            let evicted = events.iter().find(|event| {
                event.involved_object.name.as_deref() == Some(name)
                    && event.reason.as_deref() == Some("Evicted")
            });
            let is_right = |event: &Event| {
                event.type_.as_deref() == Some("Warning") && event.message.as_deref() == Some(message)
            };
            Ok(if evicted.is_some_and(is_right) {
                Look::Done(())
            } else {
                Look::NotYet(format!("{evicted:?}"))
            })
        })
        .await
        .unwrap();
        // At first it says that the pod is cleaned up.
        wait_for("the explanation of an eviction", SOON, async || {
            let explained = stdout(&daemon.command(&["explain", name]).output()?);
            Ok(if explained.contains(message.trim_end()) { Look::Done(()) } else { Look::NotYet(explained) })
        })
        .await
        .unwrap();
        let timeline = daemon.cli(&["timeline", name]).unwrap();
        assert!(timeline.contains("evicted"), "{timeline}");
    }
    wait_for("the volume of an evicted pod is removed", SOON, async || {
        Ok(if written[0].exists() { Look::NotYet("it exists".to_owned()) } else { Look::Done(()) })
    })
    .await
    .unwrap();
    let modest = server.api().get::<Pod>(&format!("{PODS}/modest")).unwrap();
    assert!(is_ready(&modest), "{:?}", modest.status);
    daemon.stop().await.unwrap();
}

/// A threshold that every machine is below.
const SHORT_OF_DISK: &str = "evictionHard: {imagefs.available: 99%}\n";

#[tokio::test]
async fn a_node_that_is_short_of_disk_evicts_who_fills_it_and_admits_nobody() {
    let (host, server) = (FakeHost::start().unwrap(), FakeApiServer::start().unwrap());
    host.runtime().add_image("busybox:1");
    let daemon = host.join(&server, "").await.unwrap();
    for name in ["hog", "modest"] {
        give(&server, &host, name, json!({})).unwrap();
        wait_for_shown(&server, name, is_ready).await.unwrap();
    }
    daemon.stop().await.unwrap();
    let of_hog = |labels: &HashMap<String, String>| {
        labels.get("io.kubernetes.pod.name").is_some_and(|pod| pod == "hog")
    };
    let hog = host.runtime().wire_containers().into_iter().find(|c| of_hog(&c.labels)).unwrap();
    host.runtime().set_written(&hog.id.into(), 1 << 50);

    let daemon = host.join(&server, SHORT_OF_DISK).await.unwrap();
    let status = wait_for_shown(&server, "hog", is_evicted).await.unwrap().status.unwrap();
    let message = status.message.unwrap_or_default();
    assert!(
        message.starts_with("The node was low on resource: ephemeral-storage. Threshold quantity: "),
        "{message}"
    );
    let disrupted = |condition: &PodCondition| {
        (condition.type_ == "DisruptionTarget").then(|| condition.reason.clone().unwrap_or_default())
    };
    let reasons: Vec<String> = status.conditions.iter().flatten().filter_map(disrupted).collect();
    assert_eq!(reasons, ["TerminationByKubelet"]);
    wait_for("the event with its annotations", SOON, async || {
        let events = server.api().list::<Event>("/api/v1/namespaces/default/events");
        let starved = |event: &Event| {
            let annotations = event.metadata.annotations.as_ref()?;
            Some(annotations.get("starved_resource")? == "ephemeral-storage")
        };
        let is_seen = events.iter().filter_map(starved).any(|is_right| is_right);
        Ok(if is_seen { Look::Done(()) } else { Look::NotYet(format!("{events:?}")) })
    })
    .await
    .unwrap();
    // Its end would free nothing.
    let modest = server.api().get::<Pod>(&format!("{PODS}/modest")).unwrap();
    assert!(is_ready(&modest), "{:?}", modest.status);
    let pressed = |node: &Node| {
        let conditions = node.status.clone().unwrap_or_default().conditions.unwrap_or_default();
        conditions.into_iter().any(|it| it.type_ == "DiskPressure" && it.status == "True")
    };
    wait_for("the condition of the node", SOON, async || {
        let node = server.api().get::<Node>(&format!("/api/v1/nodes/{}", host.node()));
        Ok(if node.as_ref().is_some_and(pressed) {
            Look::Done(())
        } else {
            Look::NotYet(format!("{node:?}"))
        })
    })
    .await
    .unwrap();
    give(&server, &host, "late", json!({})).unwrap();
    let late = wait_for_shown(&server, "late", is_evicted).await.unwrap().status.unwrap();
    assert_eq!(late.message.as_deref(), Some("Pod was rejected: The node had condition: [DiskPressure]. "));
    let shown = daemon.cli(&["node"]).unwrap();
    assert!(shown.contains("imagefs.available") && shown.contains("KubeletHasDiskPressure"), "{shown}");
    daemon.stop().await.unwrap();
}

#[tokio::test]
async fn a_static_pod_is_never_evicted_but_reported() {
    let host = FakeHost::start().unwrap();
    host.runtime().add_image("busybox:1");
    let daemon = host.start_hostlet("").await.unwrap();
    let spec = json!({
        "containers": [{"name": "main", "image": "busybox:1"}],
        "volumes": [{"name": "data", "emptyDir": {"sizeLimit": "1Mi"}}],
    });
    host.write_manifest("web.yaml", &manifest_with("web", spec)).unwrap();
    wait_until_ready(&daemon, &["web"]).await.unwrap();
    let pod = daemon.pod("web").unwrap().context("the pod").unwrap();
    let uid = pod.metadata.uid.unwrap_or_else(|| uid("web"));
    fs::write(volume(&host, &uid).join("file"), vec![1; 2 << 20]).unwrap();
    wait_for_log(&daemon, "not evicted because it is critical").await.unwrap();
    wait_until_ready(&daemon, &["web"]).await.unwrap();
    daemon.stop().await.unwrap();
}

#[tokio::test]
async fn without_local_storage_isolation_no_limit_is_enforced() {
    let (host, server) = (FakeHost::start().unwrap(), FakeApiServer::start().unwrap());
    host.runtime().add_image("busybox:1");
    let daemon = host.join(&server, "localStorageCapacityIsolation: false\n").await.unwrap();
    let limited = json!({
        "containers": limits("1Mi"), "volumes": [{"name": "data", "emptyDir": {"sizeLimit": "1Mi"}}],
    });
    give(&server, &host, "web", limited).unwrap();
    let pod = wait_for_shown(&server, "web", is_ready).await.unwrap();
    fs::write(volume(&host, &pod.metadata.uid.unwrap()).join("file"), vec![1; 2 << 20]).unwrap();
    // With isolation a new pod is measured at once.
    let lists = || host.runtime().calls_of(Operation::ListContainers).len();
    let before = lists();
    wait_for("relists", SOON, async || {
        Ok(if lists() > before + 2 { Look::Done(()) } else { Look::NotYet(lists().to_string()) })
    })
    .await
    .unwrap();
    assert!(host.runtime().calls_of(Operation::ListContainerStats).is_empty());
    let shown = server.api().get::<Pod>(&format!("{PODS}/web")).unwrap();
    assert!(is_ready(&shown), "{:?}", shown.status);
    daemon.stop().await.unwrap();
}
