//! The API over its socket, as agents call it.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use hostlet_devices::HeldDevices;
use hostlet_plugins::connect;
use hostlet_proto::pod_resources::pod_resources_lister_client::PodResourcesListerClient;
use hostlet_proto::pod_resources::{
    AllocatableResourcesRequest, GetPodResourcesRequest, ListPodResourcesRequest,
};
use hostlet_proto::pod_resources_alpha as alpha;
use hostlet_proto::pod_resources_alpha::pod_resources_lister_client::PodResourcesListerClient as OldClient;
use hostlet_telemetry::Metrics;
use k8s_openapi::api::core::v1::{Container, Pod};
use serde_json::json;
use tempfile::TempDir;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tonic::Code;
use tonic::transport::Channel;

use super::*;

/// Two pods, of which one has ended.
struct Source;

fn pod(name: &str) -> Arc<Pod> {
    let pod = json!({
        "metadata": {"name": name, "namespace": "default", "uid": name},
        "spec": {
            "initContainers": [{"name": "init"}, {"name": "sidecar", "restartPolicy": "Always"}],
            "containers": [{"name": "main"}],
        },
    });
    Arc::new(serde_json::from_value(pod).unwrap())
}

fn devices() -> Vec<HeldDevices> {
    let devices = BTreeMap::from([("a".to_owned(), [0, 1].into()), ("b".to_owned(), [].into())]);
    vec![HeldDevices { resource: "example.com/gpu".to_owned(), devices }]
}

fn memory() -> Vec<MemoryBlock> {
    vec![MemoryBlock { kind: "memory".to_owned(), size: 1 << 30, nodes: vec![0, 1] }]
}

impl PodResourcesSource for Source {
    fn pods(&self) -> Vec<Arc<Pod>> {
        vec![pod("ended"), pod("running")]
    }

    fn active_pods(&self) -> Vec<Arc<Pod>> {
        vec![pod("running")]
    }

    fn pod(&self, namespace: &str, name: &str) -> Option<Arc<Pod>> {
        (namespace == "default" && name == "running").then(|| pod(name))
    }

    fn container(&self, pod: &Pod, container: &Container) -> ContainerResources {
        assert!(["running", "ended"].contains(&pod.metadata.name.as_deref().unwrap()));
        if container.name != "main" {
            return ContainerResources::default();
        }
        let device = ClaimedDevice {
            driver: "gpu.example.com".to_owned(),
            pool: "node1".to_owned(),
            device: "gpu-0".to_owned(),
            cdi_devices: vec!["example.com/gpu=0".to_owned()],
            share: None,
        };
        let claim = ClaimedDevices {
            name: "claim".to_owned(),
            namespace: "default".to_owned(),
            devices: vec![device],
        };
        ContainerResources { devices: devices(), cpus: vec![2, 3], memory: memory(), claims: vec![claim] }
    }

    fn allocatable(&self) -> AllocatableResources {
        AllocatableResources { devices: devices(), cpus: vec![1, 2, 3], memory: memory() }
    }
}

struct Harness {
    dir: TempDir,
    metrics: Metrics,
    _running: JoinSet<()>,
}

impl Harness {
    async fn start() -> (Self, Channel) {
        let (dir, metrics) = (tempfile::tempdir().unwrap(), Metrics::default());
        // Of a daemon that was killed.
        drop(std::os::unix::net::UnixListener::bind(dir.path().join("kubelet.sock")).unwrap());
        let settings = PodResourcesSettings { dir: dir.path().to_owned() };
        let server = PodResourcesServer::new(settings, Arc::new(Source), &metrics);
        let mut running = JoinSet::new();
        running.spawn(server.run(CancellationToken::new()));
        let channel = reach(&dir.path().join("kubelet.sock")).await;
        (Self { dir, metrics, _running: running }, channel)
    }
}

async fn reach(socket: &Path) -> Channel {
    loop {
        match connect(socket).await {
            Ok(channel) => return channel,
            Err(_) => tokio::task::yield_now().await,
        }
    }
}

#[tokio::test]
async fn agents_learn_what_containers_have() {
    let (harness, channel) = Harness::start().await;
    let mut client = PodResourcesListerClient::new(channel.clone());
    let listed = client.list(ListPodResourcesRequest {}).await.unwrap().into_inner().pod_resources;
    assert_eq!(listed.len(), 1, "only pods that have not terminated");
    let names: Vec<&str> = listed[0].containers.iter().map(|container| &*container.name).collect();
    assert_eq!(names, ["sidecar", "main"]);
    let main = &listed[0].containers[1];
    let of: Vec<(&str, Option<i64>)> = main
        .devices
        .iter()
        .map(|entry| (&*entry.device_ids[0], entry.topology.as_ref().map(|topology| topology.nodes[0].id)))
        .collect();
    assert_eq!(of, [("a", Some(0)), ("a", Some(1)), ("b", None)]);
    assert_eq!((&*main.cpu_ids, main.memory[0].size), (&[2, 3][..], 1 << 30));
    assert_eq!(main.memory[0].topology.as_ref().unwrap().nodes.len(), 2);
    let claimed = &main.dynamic_resources[0];
    assert_eq!(claimed.claim_resources[0].cdi_devices[0].name, "example.com/gpu=0");

    let request = |name: &str| GetPodResourcesRequest {
        pod_name: name.to_owned(),
        pod_namespace: "default".to_owned(),
    };
    let got = client.get(request("running")).await.unwrap().into_inner().pod_resources;
    assert_eq!(got.as_ref(), Some(&listed[0]));
    let missing = client.get(request("none")).await.unwrap_err();
    assert_eq!(
        (missing.code(), missing.message()),
        (Code::Unknown, "pod none in namespace default not found")
    );
    let all = client.get_allocatable_resources(AllocatableResourcesRequest {}).await.unwrap().into_inner();
    assert_eq!((all.cpu_ids, all.devices.len(), all.memory.len()), (vec![1, 2, 3], 3, 1));

    let mut old = OldClient::new(channel);
    let listed = old.list(alpha::ListPodResourcesRequest {}).await.unwrap().into_inner().pod_resources;
    let names: Vec<&str> = listed.iter().map(|pod| &*pod.name).collect();
    assert_eq!(names, ["ended", "running"]);
    assert_eq!(listed[1].containers[0].devices.len(), 3);

    let text = harness.metrics.encode();
    for line in [
        "requests_total{server_api_version=\"v1\"} 4",
        "requests_total{server_api_version=\"v1alpha1\"} 1",
        "requests_list{server_api_version=\"v1\"} 1",
        "requests_get{server_api_version=\"v1\"} 2",
        "errors_get{server_api_version=\"v1\"} 1",
        "requests_get_allocatable{server_api_version=\"v1\"} 1",
    ] {
        assert!(text.contains(&format!("kubelet_pod_resources_endpoint_{line}\n")), "{text}");
    }
    assert!(harness.dir.path().join("kubelet.sock").exists());
}
