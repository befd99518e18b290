//! The daemon as a node of a cluster with a faulty API server.

use std::time::Duration;

use anyhow::Result;
use hostlet_cluster::api::fake::{ApiFault, ApiRule, FakeApi};
use hostlet_integration::fake_cri::FakeHost;
use hostlet_integration::{FakeApiServer, Look, wait_for};
use hostlet_proto::cri::ContainerState;
use hostlet_runtime::cri::fake::Restart;
use hostlet_store::Table;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Event, Node, Pod, Secret, Service};
use serde_json::{Value, json};

use crate::support::{LATER, PODS, SOON, is_ready, wait_for_complaint, wait_until_stored};

fn path(name: &str) -> String {
    format!("{PODS}/{name}")
}

/// Assigns to the node a pod that has one container, `main`.
fn give(server: &FakeApiServer, host: &FakeHost, name: &str, more: Value) -> Result<()> {
    let mut spec = json!({
        "nodeName": host.node(), "restartPolicy": "Always", "terminationGracePeriodSeconds": 2,
        "containers": [{"name": "main", "image": "busybox:1", "imagePullPolicy": "IfNotPresent"}]
    });
    for (field, value) in more.as_object().into_iter().flatten() {
        spec[field] = value.clone();
    }
    let pod = json!({"metadata": {"name": name, "namespace": "default"}, "spec": spec});
    server.api().put(&path(name), &serde_json::from_value::<Pod>(pod)?);
    Ok(())
}

async fn wait_for_shown(api: &FakeApi, name: &str, is_it: impl Fn(&Pod) -> bool) -> Result<Pod> {
    wait_for(&format!("pod {name} as wanted on the API server"), SOON, async || {
        let shown = api.get::<Pod>(&path(name));
        Ok(match shown {
            Some(pod) if is_it(&pod) => Look::Done(pod),
            other => Look::NotYet(format!("{:?}", other.and_then(|pod| pod.status))),
        })
    })
    .await
}

async fn wait_until_deleted(server: &FakeApiServer, host: &FakeHost, name: &str) -> Result<()> {
    wait_for(&format!("the end of {name}"), LATER, async || {
        let left: Vec<_> = host
            .runtime()
            .wire_containers()
            .into_iter()
            .filter(|c| c.labels.get("io.kubernetes.pod.name").is_some_and(|pod| pod == name))
            .collect();
        let runs = left.iter().any(|c| c.state() == ContainerState::ContainerRunning);
        let shown = server.api().get::<Pod>(&path(name)).is_some();
        Ok(if runs || shown { Look::NotYet(format!("shown: {shown}, {left:?}")) } else { Look::Done(()) })
    })
    .await
}

/// How often each container was created, by the pod's name.
fn attempts(host: &FakeHost, name: &str) -> Vec<u32> {
    let containers = host.runtime().wire_containers().into_iter();
    let own = containers.filter(|c| c.labels.get("io.kubernetes.pod.name").is_some_and(|pod| pod == name));
    let mut attempts: Vec<u32> = own.filter_map(|c| Some(c.metadata?.attempt)).collect();
    attempts.sort_unstable();
    attempts
}

#[tokio::test]
async fn a_node_joins_runs_its_pods_and_reports_their_statuses() {
    let (host, server) = (FakeHost::start().unwrap(), FakeApiServer::start().unwrap());
    host.runtime().add_image("busybox:1");
    let daemon = host.join(&server, "").await.unwrap();
    give(&server, &host, "a", json!({})).unwrap();
    give(&server, &host, "once", json!({"restartPolicy": "Never"})).unwrap();
    give(&server, &host, "misplaced", json!({"nodeSelector": {"no": "such"}})).unwrap();
    let shown = wait_for_shown(server.api(), "a", is_ready).await.unwrap();
    assert_eq!(shown.status.unwrap().qos_class.as_deref(), Some("BestEffort"));
    let refused = wait_for_shown(server.api(), "misplaced", |pod| {
        pod.status.as_ref().is_some_and(|status| status.phase.as_deref() == Some("Failed"))
    });
    assert_eq!(refused.await.unwrap().status.unwrap().reason.as_deref(), Some("NodeAffinity"));

    // No pod waits for either.
    wait_for("a ready node and its lease", SOON, async || {
        let node = server.api().get::<Node>(&format!("/api/v1/nodes/{}", host.node()));
        let conditions = node.and_then(|node| node.status?.conditions).unwrap_or_default();
        let is_ready = conditions.iter().any(|c| c.type_ == "Ready" && c.status == "True");
        let leases = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases";
        let has_lease = server.api().get::<Lease>(&format!("{leases}/{}", host.node())).is_some();
        let seen = || format!("lease: {has_lease}, {conditions:?}");
        Ok(if is_ready && has_lease { Look::Done(()) } else { Look::NotYet(seen()) })
    })
    .await
    .unwrap();
    let started = |event: &Event| event.reason.as_deref() == Some("Started");
    wait_for("events", SOON, async || {
        let events = server.api().list::<Event>("/api/v1/namespaces/default/events");
        let field =
            events.iter().find(|event| started(event)).and_then(|e| e.involved_object.field_path.clone());
        Ok(field.map_or(Look::NotYet(format!("{} events", events.len())), Look::Done))
    })
    .await
    .unwrap();

    for name in ["a", "once", "misplaced"] {
        server.api().delete(&path(name), Some(1));
    }
    // The API server deletes a pod that failed by itself.
    for (name, times) in [("a", 1), ("once", 1), ("misplaced", 0)] {
        wait_until_deleted(&server, &host, name).await.unwrap();
        let deletes = server.api().requests_of("DELETE", &path(name));
        assert_eq!(deletes.len(), times, "{name}: {deletes:?}");
    }
    daemon.stop().await.unwrap();
}

#[tokio::test]
async fn the_runtime_receives_the_ranges_of_pod_addresses() {
    let (host, server) = (FakeHost::start().unwrap(), FakeApiServer::start().unwrap());
    let receives = async |ranges: &str| {
        wait_for(&format!("the runtime to receive {ranges}"), SOON, async || {
            let known = host.runtime().pod_cidr();
            Ok(if known.as_deref() == Some(ranges) {
                Look::Done(())
            } else {
                Look::NotYet(format!("{known:?}"))
            })
        })
        .await
    };
    let daemon = host.join(&server, "podCIDR: 10.9.0.0/16\n").await.unwrap();
    receives("10.9.0.0/16").await.unwrap();
    let path = format!("/api/v1/nodes/{}", host.node());
    let node = wait_for("the Node", SOON, async || {
        Ok(server.api().get::<Value>(&path).map_or(Look::NotYet("no Node".to_owned()), Look::Done))
    });
    let mut node = node.await.unwrap();
    node["spec"]["podCIDRs"] = json!(["10.1.2.0/24", "fd00:2::/64"]);
    server.api().put(&path, &node);
    receives("10.1.2.0/24,fd00:2::/64").await.unwrap();
    daemon.stop().await.unwrap();
}

#[tokio::test]
async fn pods_start_and_stop_once_with_any_faults_of_the_api_server() {
    let reject = |code, reason, retry_after| ApiFault::Reject { code, reason, retry_after };
    let faults = [
        ApiFault::Reset,
        ApiFault::LostAnswer,
        ApiFault::Delay(Duration::from_secs(2)),
        reject(409, "Conflict", 0),
        reject(500, "InternalError", 0),
        reject(429, "TooManyRequests", 1),
    ];
    let (host, server) = (FakeHost::start().unwrap(), FakeApiServer::start().unwrap());
    host.runtime().add_image("busybox:1");
    for fault in &faults {
        for method in ["GET", "POST", "PATCH", "DELETE", "WATCH"] {
            server.api().fail(ApiRule { times: 2, ..ApiRule::always(method, "", fault.clone()) });
        }
    }
    let daemon = host.join(&server, "").await.unwrap();
    let names: Vec<String> = (0..4).map(|number| format!("p{number}")).collect();
    for name in &names {
        give(&server, &host, name, json!({})).unwrap();
    }
    for name in &names {
        wait_for_shown(server.api(), name, is_ready).await.unwrap();
        assert_eq!(attempts(&host, name), [0], "{name} was made once");
    }
    for (name, fault) in names.iter().zip(&faults) {
        for method in ["PATCH", "DELETE"] {
            server.api().fail(ApiRule { times: 1, ..ApiRule::always(method, &path(name), fault.clone()) });
        }
        server.api().delete(&path(name), Some(1));
    }
    for name in &names {
        wait_until_deleted(&server, &host, name).await.unwrap();
    }
    daemon.stop().await.unwrap();
}

#[tokio::test]
async fn a_node_without_its_api_server_survives_restarts_of_the_daemon_and_the_host() {
    let (host, mut server) = (FakeHost::start().unwrap(), FakeApiServer::start().unwrap());
    host.runtime().add_image("busybox:1");
    let daemon = host.join(&server, "").await.unwrap();
    let service = json!({
        "metadata": {"name": "kubernetes", "namespace": "default"},
        "spec": {"clusterIP": "10.96.0.1", "ports": [{"name": "https", "port": 443, "protocol": "TCP"}]}
    });
    let service: Service = serde_json::from_value(service).unwrap();
    server.api().put("/api/v1/namespaces/default/services/kubernetes", &service);
    let secret = json!({"metadata": {"name": "password", "namespace": "default"}, "data": {"k": "c2VjcmV0"}});
    let secret: Secret = serde_json::from_value(secret).unwrap();
    server.api().put("/api/v1/namespaces/default/secrets/password", &secret);
    let key = json!({"secretKeyRef": {"name": "password", "key": "k"}});
    let variables = json!([{"name": "PASSWORD", "valueFrom": key}]);
    let with_secret = json!({"containers": [
        {"name": "main", "image": "busybox:1", "imagePullPolicy": "IfNotPresent", "env": variables}]});
    for name in ["stays", "goes"] {
        give(&server, &host, name, with_secret.clone()).unwrap();
        wait_for_shown(server.api(), name, is_ready).await.unwrap();
    }
    // State that the next daemon cannot request. Services are written rarely.
    wait_until_stored(&host, Table::AdmittedPods, |stored| stored.len() == 2).await.unwrap();
    wait_until_stored(&host, Table::Services, |stored| !stored.is_empty()).await.unwrap();
    wait_until_stored(&host, Table::OfflineObjects, |stored| !stored.is_empty()).await.unwrap();
    server.stop();
    daemon.kill().unwrap();
    // A pod of the unreachable node is deleted.
    server.api().delete(&path("goes"), Some(1));
    // The host loses everything that runs on it.
    let gone = Duration::ZERO;
    host.runtime().restart(Restart { down: gone, recovering: gone, takes_pods_along: true });
    let daemon = host.join(&server, "").await.unwrap();
    for name in ["stays", "goes"] {
        daemon.wait_for_api_pod(name, SOON, is_ready).await.unwrap();
    }
    let explained = daemon.cli(&["explain", "stays"]).unwrap();
    assert!(explained.contains("uses what it sent before: secret default/password (sent "), "{explained}");
    let is_reported = |text: &str| text.contains("The API server cannot be read");
    wait_for_complaint(&daemon, "the API server that is away", is_reported).await.unwrap();
    server.resume().unwrap();
    wait_until_deleted(&server, &host, "goes").await.unwrap();
    wait_for_shown(server.api(), "stays", is_ready).await.unwrap();
    daemon.stop().await.unwrap();
}
