//! CSI drivers and their volumes, from a real daemon's point of view: the driver is a process that really mounts.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result};
use hostlet_integration::csi::{CsiDriver, CsiDriverOptions, Fault};
use hostlet_integration::fake_cri::FakeHost;
use hostlet_integration::{Daemon, Look, wait_for};
use hostlet_plugins::{PluginState, PluginView};
use serde_json::{Value, json};
use tonic::Code;

use crate::support::{LATER, SOON, manifest_with, uid, wait_until_gone, wait_until_ready};

const DRIVER: &str = "csi.hostlet.test";

/// A driver of volumes that nobody attaches.
fn driver(host: &FakeHost, arguments: &[&str]) -> CsiDriver {
    let arguments = ["--no-attach"].iter().chain(arguments).map(|argument| (*argument).to_owned());
    CsiDriver::new(CsiDriverOptions {
        program: env!("CARGO_BIN_EXE_csi_driver").into(),
        name: DRIVER.to_owned(),
        node_id: "n-1".to_owned(),
        root: host.directory().join("kubelet"),
        volumes: host.directory().join("csi"),
        work: host.directory().to_owned(),
        arguments: arguments.collect(),
        registrar: None,
    })
}

/// Waits until the drivers that `hostlet plugins` shows are as wanted.
async fn wait_for_plugins(daemon: &Daemon, is_it: impl Fn(&[PluginView]) -> bool) -> Result<Vec<PluginView>> {
    wait_for("the drivers as wanted", LATER, async || {
        let json = daemon.cli(&["plugins", "-o", "json"])?;
        let plugins: Vec<PluginView> = serde_json::from_str(&json).with_context(|| json.clone())?;
        Ok(if is_it(&plugins) { Look::Done(plugins) } else { Look::NotYet(json) })
    })
    .await
}

/// What is known of the only driver, if it serves.
fn details(plugins: &[PluginView]) -> Option<&Value> {
    match plugins {
        [plugin] if plugin.state == PluginState::Serving => plugin.details.as_ref(),
        _ => None,
    }
}

#[tokio::test]
async fn a_driver_registers_restarts_and_vanishes() {
    let host = FakeHost::start().unwrap();
    let mut driver = driver(&host, &["--max-volumes", "16", "--topology", "zone=a"]);
    driver.faults().always("NodeGetInfo", Fault::Fails(Code::Unavailable as i32)).unwrap();
    let daemon = host.start_hostlet("").await.unwrap();
    driver.start().unwrap();

    // It serves, and hostlet asks again and again what it does not say.
    let plugins = wait_for_plugins(&daemon, |plugins| {
        details(plugins).is_some_and(|details| details["nextRetry"].is_string())
    });
    let plugins = plugins.await.unwrap();
    let failing = details(&plugins).unwrap();
    assert_eq!(failing["lastError"], "NodeGetInfo: rpc error: code = Unavailable desc = scripted");
    assert_eq!(failing["nodeID"], json!(null));
    driver.faults().clear("NodeGetInfo").unwrap();
    let expected = json!({
        "nodeID": "n-1", "maxVolumes": 16, "topology": {"zone": "a"}, "lastError": null, "nextRetry": null,
        "capabilities": [
            "STAGE_UNSTAGE_VOLUME", "GET_VOLUME_STATS", "EXPAND_VOLUME", "SINGLE_NODE_MULTI_WRITER", "VOLUME_MOUNT_GROUP"
        ],
    });
    wait_for_plugins(&daemon, |plugins| details(plugins) == Some(&expected)).await.unwrap();

    // It crashes, and registers again at the same socket.
    driver.kill().unwrap();
    driver.start().unwrap();
    let infos = |driver: &CsiDriver| {
        let calls = driver.calls().unwrap();
        calls.iter().filter(|call| call["call"] == "NodeGetInfo" && call["code"] == "OK").count()
    };
    wait_for("the question of the new instance", SOON, async || {
        let asked = infos(&driver);
        Ok(if asked == 2 { Look::Done(()) } else { Look::NotYet(format!("{asked} answers")) })
    })
    .await
    .unwrap();
    wait_for_plugins(&daemon, |plugins| details(plugins) == Some(&expected)).await.unwrap();

    driver.stop().unwrap();
    wait_for_plugins(&daemon, <[PluginView]>::is_empty).await.unwrap();
    assert!(daemon.stop().await.unwrap().success());
}

/// A pod with a claim, and the volume behind it, which the driver makes when it is staged.
fn manifests() -> [(&'static str, String); 2] {
    let volume = json!({
        "apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "pv-1"},
        "spec": {
            "accessModes": ["ReadWriteOnce"], "capacity": {"storage": "64Mi"}, "claimRef": {"name": "data"},
            "csi": {"driver": DRIVER, "volumeHandle": "by-hand", "volumeAttributes": {"create": "true"}},
        },
    });
    let claim = json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "data"}, "spec": {}});
    let object = json!({
        "apiVersion": "storage.k8s.io/v1", "kind": "CSIDriver", "metadata": {"name": DRIVER},
        "spec": {"attachRequired": false},
    });
    let pod = manifest_with(
        "db",
        json!({
            "containers": [
                {"name": "main", "image": "busybox:1", "volumeMounts": [{"name": "data", "mountPath": "/data"}]}
            ],
            "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}],
        }),
    );
    let objects = [volume, claim, object].map(|object| object.to_string());
    [("objects.yaml", objects.join("\n---\n")), ("db.json", pod)]
}

/// The calls about volumes that succeeded, oldest first.
fn done(driver: &CsiDriver) -> Result<Vec<String>> {
    let calls = driver.calls()?.into_iter();
    let done = calls.filter(|call| call["code"] == "OK" && call.get("volume").is_some());
    Ok(done.map(|call| call["call"].as_str().unwrap_or_default().to_owned()).collect())
}

#[tokio::test]
async fn a_volume_survives_a_driver_that_loses_answers_and_dies() {
    let host = FakeHost::start().unwrap();
    let mut driver = driver(&host, &[]);
    let faults = driver.faults();
    faults.next("NodeStageVolume", [Fault::Loses(Code::Unavailable as i32)]).unwrap();
    faults.next("NodePublishVolume", [Fault::DiesDone]).unwrap();
    faults.next("NodeUnpublishVolume", [Fault::Fails(Code::Internal as i32)]).unwrap();
    driver.start().unwrap();
    for (name, text) in manifests() {
        host.write_manifest(name, &text).unwrap();
    }
    let daemon = host.start_hostlet("").await.unwrap();

    // It dies when it has published.
    wait_for("the death of the driver", LATER, async || {
        let calls = driver.calls()?;
        let began = calls.iter().any(|call| call["call"] == "NodePublishVolume");
        Ok(if began { Look::Done(()) } else { Look::NotYet(format!("{calls:#?}")) })
    })
    .await
    .unwrap();
    driver.kill().unwrap();
    driver.start().unwrap();
    wait_until_ready(&daemon, &["db"]).await.unwrap();

    // What is written to the volume is in it.
    let volumes = host.directory().join("kubelet/pods").join(uid("db")).join("volumes");
    let published: PathBuf = volumes.join("kubernetes.io~csi/pv-1/mount");
    fs::write(published.join("file"), "content").unwrap();
    let data = driver.volumes().join("volumes/by-hand/data/file");
    assert_eq!(fs::read_to_string(&data).unwrap(), "content");

    host.remove_manifest("db.json").unwrap();
    wait_until_gone(&host, "db").await.unwrap();
    wait_for("the end of staging", LATER, async || {
        let done = done(&driver)?;
        let is_last = done.last().is_some_and(|last| last == "NodeUnstageVolume");
        Ok(if is_last { Look::Done(()) } else { Look::NotYet(format!("{done:?}")) })
    })
    .await
    .unwrap();
    assert_eq!(driver.violations().unwrap(), [""; 0]);
    assert_eq!(fs::read_to_string(&data).unwrap(), "content");
    assert!(daemon.stop().await.unwrap().success());
}
