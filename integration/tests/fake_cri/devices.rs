//! Device plugins and the sockets for agents, from a real daemon's point of view: the plugin is a process.

use std::path::PathBuf;

use anyhow::{Context, Result};
use hostlet_devices::PluginPhase;
use hostlet_integration::device_plugin::{DevicePluginOptions, DevicePluginProcess};
use hostlet_integration::fake_cri::FakeHost;
use hostlet_integration::{Daemon, Look, wait_for};
use hostlet_plugins::connect;
use hostlet_proto::pod_resources::AllocatableResourcesRequest;
use hostlet_proto::pod_resources::pod_resources_lister_client::PodResourcesListerClient;
use hostlet_proto::pods_api::ListPodsRequest;
use hostlet_proto::pods_api::pods_client::PodsClient;
use hostlet_serve::server::{DevicesView, NodeReport};
use k8s_openapi::api::core::v1::Pod;
use serde_json::json;
use tonic::Code;

use crate::support::{SOON, is_ready, manifest_with};

const GPU: &str = "example.com/gpu";

fn root(host: &FakeHost) -> PathBuf {
    host.directory().join("kubelet")
}

fn plugin(host: &FakeHost) -> Result<DevicePluginProcess> {
    let options = DevicePluginOptions {
        program: DevicePluginProcess::built()?,
        resource: GPU.to_owned(),
        root: root(host),
        work: host.directory().to_owned(),
    };
    DevicePluginProcess::new(options, &json!({"devices": {"gpu-0": [0], "gpu-1": [0]}}))
}

/// Waits until the plugin is in this phase, with this capacity and this number of devices that can be used.
async fn wait_for_devices(daemon: &Daemon, phase: PluginPhase, counts: [usize; 2]) -> Result<DevicesView> {
    wait_for("the devices as expected", SOON, async || {
        let json = daemon.cli(&["devices", "-o", "json"])?;
        let view: DevicesView = serde_json::from_str(&json).with_context(|| json.clone())?;
        let is_it = view.resources.first().is_some_and(|resource| {
            resource.plugin == phase && [resource.capacity, resource.allocatable] == counts
        });
        Ok(if is_it { Look::Done(view) } else { Look::NotYet(json) })
    })
    .await
}

/// The node's capacity and allocatable of the resource.
fn node_states(daemon: &Daemon) -> Result<[Option<String>; 2]> {
    let report: NodeReport = serde_json::from_str(&daemon.cli(&["node", "-o", "json"])?)?;
    let status = report.description.node.status.context("the status of the node")?;
    Ok([status.capacity, status.allocatable].map(|all| all.and_then(|all| Some(all.get(GPU)?.0.clone()))))
}

#[tokio::test]
async fn a_plugin_registers_again_after_each_restart_and_the_node_states_its_devices() {
    let host = FakeHost::start().unwrap();
    let daemon = host.start_hostlet("").await.unwrap();
    assert_eq!(daemon.cli(&["devices"]).unwrap(), "No devices of device plugins.\n");
    let mut plugin = plugin(&host).unwrap();
    plugin.start().unwrap();
    wait_for_devices(&daemon, PluginPhase::Registered, [2, 2]).await.unwrap();
    assert_eq!(node_states(&daemon).unwrap(), ["2", "2"].map(|count| Some(count.to_owned())));
    plugin.does(&json!({"devices": {"gpu-0": [0], "gpu-1": [0]}, "unhealthy": ["gpu-1"]})).unwrap();
    wait_for_devices(&daemon, PluginPhase::Registered, [2, 1]).await.unwrap();
    let table = daemon.cli(&["devices"]).unwrap();
    assert!(table.contains("gpu-1   Unhealthy  0     <none>  <none>"), "{table}");
    plugin.kill().unwrap();
    wait_for_devices(&daemon, PluginPhase::Away, [2, 0]).await.unwrap();
    assert_eq!(node_states(&daemon).unwrap(), ["2", "0"].map(|count| Some(count.to_owned())));
    plugin.start().unwrap();
    wait_for_devices(&daemon, PluginPhase::Registered, [2, 1]).await.unwrap();

    // The daemon is killed: the plugin notices the new one, which knows what there was.
    daemon.kill().unwrap();
    let daemon = host.start_hostlet("").await.unwrap();
    wait_for_devices(&daemon, PluginPhase::Registered, [2, 1]).await.unwrap();
    plugin.stop().unwrap();
    let view = wait_for_devices(&daemon, PluginPhase::Away, [2, 0]).await.unwrap();
    assert!(view.problems.is_empty(), "{view:?}");
}

#[tokio::test]
async fn agents_find_their_sockets() {
    let host = FakeHost::start().unwrap();
    let daemon = host.start_hostlet("").await.unwrap();
    let mut plugin = plugin(&host).unwrap();
    plugin.start().unwrap();
    wait_for_devices(&daemon, PluginPhase::Registered, [2, 2]).await.unwrap();
    let channel = connect(&root(&host).join("pod-resources/kubelet.sock")).await.unwrap();
    let mut client = PodResourcesListerClient::new(channel);
    let all = client.get_allocatable_resources(AllocatableResourcesRequest {}).await.unwrap().into_inner();
    let ids: Vec<&str> = all.devices.iter().map(|entry| &*entry.device_ids[0]).collect();
    assert_eq!(ids, ["gpu-0", "gpu-1"]);
    let channel = connect(&root(&host).join("pods-api/pods-api.sock")).await.unwrap();
    let mut client = PodsClient::new(channel);
    let listed =
        wait_for("the sources to be read", SOON, async || match client.list_pods(ListPodsRequest {}).await {
            Ok(listed) => Ok(Look::Done(listed.into_inner().pods)),
            Err(status) if status.code() == Code::FailedPrecondition => Ok(Look::NotYet(status.to_string())),
            Err(status) => Err(status.into()),
        });
    assert_eq!(listed.await.unwrap(), Vec::<Vec<u8>>::new());
}

/// The container that has each device of the node.
fn holders(view: &DevicesView) -> Vec<(String, Option<String>)> {
    let devices = view.resources.iter().flat_map(|resource| &resource.devices);
    devices.map(|device| (device.id.clone(), device.holders.first().and_then(|it| it.pod.clone()))).collect()
}

#[tokio::test]
async fn a_pod_waits_in_the_list_for_its_device_and_keeps_it_whatever_becomes_of_the_checkpoint() {
    let host = FakeHost::start().unwrap();
    let daemon = host.start_hostlet("").await.unwrap();
    let mut plugin = plugin(&host).unwrap();
    plugin.start().unwrap();
    wait_for_devices(&daemon, PluginPhase::Registered, [2, 2]).await.unwrap();
    plugin.kill().unwrap();
    wait_for_devices(&daemon, PluginPhase::Away, [2, 0]).await.unwrap();
    let resources = json!({"limits": {GPU: "1"}, "requests": {GPU: "1"}});
    let spec = json!({"containers": [{"name": "main", "image": "busybox:1", "resources": resources}]});
    host.write_manifest("train.json", &manifest_with("train", spec)).unwrap();
    let waits = |pod: &Pod| {
        let status = pod.status.clone().unwrap_or_default();
        status.reason.as_deref() == Some("AdmissionDelayed")
            && status.message.is_some_and(|message| message.contains("its device plugin is not registered"))
    };
    daemon.wait_for_pod("train", SOON, waits).await.unwrap();
    plugin.start().unwrap();
    daemon.wait_for_pod("train", SOON, is_ready).await.unwrap();
    let view = wait_for_devices(&daemon, PluginPhase::Registered, [2, 2]).await.unwrap();
    let held = holders(&view);
    assert_eq!(held.iter().filter(|(_, pod)| pod.is_some()).count(), 1, "{held:?}");

    let checkpoint = root(&host).join("device-plugins/kubelet_internal_checkpoint");
    let mut daemon = daemon;
    for is_removed in [false, true] {
        daemon.kill().unwrap();
        match is_removed {
            true => std::fs::remove_file(&checkpoint).unwrap(),
            false => std::fs::write(&checkpoint, "{").unwrap(),
        }
        daemon = host.start_hostlet("").await.unwrap();
        daemon.wait_for_pod("train", SOON, is_ready).await.unwrap();
        let view = wait_for_devices(&daemon, PluginPhase::Registered, [2, 2]).await.unwrap();
        assert_eq!(holders(&view), held, "{view:?}");
        assert!(view.problems[0].contains("known from hostlet's copy"), "{view:?}");
        let events = daemon.cli(&["events"]).unwrap();
        assert!(events.contains("DeviceCheckpointDamaged"), "{events}");
    }
}
