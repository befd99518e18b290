//! Devices of a plugin in containers, over restarts of everybody, and what becomes of pods that cannot have them.

use anyhow::Result;
use hostlet_integration::device_plugin::{DevicePluginOptions, DevicePluginProcess};
use hostlet_integration::real::{BUSYBOX_IMAGE, Daemon, RealHost};
use hostlet_integration::{Look, wait_for};
use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};

use crate::support::{SOON, pod, statuses, wait_for_log, wait_for_pod, wait_until_ready};

const GPU: &str = "example.com/gpu";

/// A pod with this many devices, which prints them and idles.
fn user(name: &str, count: usize) -> String {
    let resources = json!({"limits": {GPU: count.to_string()}});
    let script = "echo devices=$GPU_DEVICES; trap 'exit 0' TERM; sleep 100000 & wait";
    let container =
        json!({"name": "c", "image": BUSYBOX_IMAGE, "command": ["sh", "-c", script], "resources": resources});
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"terminationGracePeriodSeconds": 2, "containers": [container]},
    })
    .to_string()
}

fn two_devices() -> Value {
    json!({"devices": {"gpu-0": [0], "gpu-1": [0]}})
}

fn plugin(host: &RealHost) -> Result<DevicePluginProcess> {
    let options = DevicePluginOptions {
        program: DevicePluginProcess::built()?,
        resource: GPU.to_owned(),
        root: host.kubelet_root(),
        work: host.directory("plugin")?,
    };
    DevicePluginProcess::new(options, &two_devices())
}

/// Waits until `hostlet devices` shows this text.
async fn wait_for_devices(daemon: &Daemon, text: &str) -> Result<String> {
    wait_for(&format!("{text:?} in hostlet devices"), SOON, async || {
        let table = daemon.cli(&["devices"])?;
        Ok(if table.contains(text) { Look::Done(table) } else { Look::NotYet(table) })
    })
    .await
}

fn reason(pod: &Pod) -> Option<&str> {
    pod.status.as_ref()?.reason.as_deref()
}

#[tokio::test]
async fn containers_have_their_devices_whatever_restarts() {
    let mut host = RealHost::start().await.unwrap();
    let daemon = host.start_hostlet("").await.unwrap();
    let mut plugin = plugin(&host).unwrap();
    plugin.start().unwrap();
    wait_for_devices(&daemon, "gpu-1").await.unwrap();
    host.write_manifest("first.json", &user("first", 1)).unwrap();
    let first = wait_until_ready(&daemon, "first").await.unwrap();
    wait_for_log(&host, &first, "c", "devices=gpu-0").await.unwrap();
    let table = wait_for_devices(&daemon, "first-node1").await.unwrap();
    assert!(table.contains("gpu-0"), "{table}");

    // More than there are is never possible; one that another pod has is not possible now.
    host.write_manifest("many.json", &user("many", 2)).unwrap();
    let is_rejected = |pod: &Pod| reason(pod) == Some("UnexpectedAdmissionError");
    let many = wait_for_pod(&daemon, "many", SOON, is_rejected).await.unwrap();
    let message = many.status.unwrap().message.unwrap();
    let expected = "requested number of devices unavailable for example.com/gpu. Requested: 2, Available: 1";
    assert!(message.contains(expected), "{message}");
    host.remove_manifest("many.json").unwrap();

    // The plugin, hostlet and containerd are restarted; the pod notices nothing.
    plugin.kill().unwrap();
    wait_for_devices(&daemon, "Away").await.unwrap();
    daemon.kill().unwrap();
    host.restart_containerd().await.unwrap();
    let daemon = host.start_hostlet("").await.unwrap();
    let again = wait_until_ready(&daemon, "first").await.unwrap();
    assert_eq!(statuses(&again)[0].restart_count, 0);
    wait_for_devices(&daemon, "first-node1").await.unwrap();

    // A new pod waits for the plugin, which was there before, and is told why.
    host.write_manifest("second.json", &user("second", 1)).unwrap();
    wait_for("hostlet explain names the plugin", SOON, async || {
        let explained = daemon.cli(&["explain", "second"])?;
        let names_it = explained.contains(GPU);
        Ok(if names_it { Look::Done(()) } else { Look::NotYet(explained) })
    })
    .await
    .unwrap();
    wait_for_pod(&daemon, "second", SOON, |pod| reason(pod) == Some("AdmissionDelayed")).await.unwrap();
    plugin.start().unwrap();
    let second = wait_until_ready(&daemon, "second").await.unwrap();
    wait_for_log(&host, &second, "c", "devices=gpu-1").await.unwrap();

    // A device that becomes unhealthy is in the status of the container that has it.
    let unhealthy = json!({"devices": {"gpu-0": [0], "gpu-1": [0]}, "unhealthy": ["gpu-1"]});
    plugin.does(&unhealthy).unwrap();
    let is_unhealthy = |pod: &Pod| {
        let health = statuses(pod).first().and_then(|status| status.allocated_resources_status.as_ref());
        let text = serde_json::to_string(&health).unwrap_or_default();
        text.contains("\"health\":\"Unhealthy\"") && text.contains("gpu-1")
    };
    wait_for_pod(&daemon, "second", SOON, is_unhealthy).await.unwrap();

    // Its devices are free once it has ended.
    host.remove_manifest("first.json").unwrap();
    wait_for("the end of first", SOON, async || {
        Ok(pod(&daemon, "first")?.map_or(Look::Done(()), |_| Look::NotYet("it is there".to_owned())))
    })
    .await
    .unwrap();
    host.write_manifest("third.json", &user("third", 1)).unwrap();
    let third = wait_until_ready(&daemon, "third").await.unwrap();
    wait_for_log(&host, &third, "c", "devices=gpu-0").await.unwrap();
    daemon.stop().await.unwrap();
}
