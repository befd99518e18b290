//! A filesystem whose server does not respond: whoever asks for a file of it waits in the kernel.

use std::path::Path;

use hostlet_integration::real::{HangingFilesystem, RealHost};
use hostlet_integration::{Look, wait_for};
use serde_json::{Value, json};

use crate::support::{IDLE, LATER, manifest, pod, wait_until_empty, wait_until_ready};

/// A pod with this volume at `/v`.
fn with_volume(name: &str, volume: &Value) -> String {
    let mut pod: Value = serde_json::from_str(&manifest(name, &[("c", IDLE)])).unwrap();
    let mut volume = volume.clone();
    volume["name"] = json!("v");
    pod["spec"]["volumes"] = json!([volume]);
    pod["spec"]["containers"][0]["volumeMounts"] = json!([{"name": "v", "mountPath": "/v"}]);
    pod.to_string()
}

/// A PersistentVolume on this directory, and its claim.
fn claimed(directory: &Path) -> String {
    let spec = json!({"local": {"path": directory}, "claimRef": {"name": "data"}});
    let meta = json!({"name": "pv-data"});
    let volume = json!({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": meta, "spec": spec});
    let meta = json!({"name": "data"});
    let claim = json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": meta, "spec": {}});
    format!("{volume}\n---\n{claim}")
}

#[tokio::test]
async fn only_the_pods_of_a_filesystem_that_hangs_wait() {
    let host = RealHost::start().await.unwrap();
    let daemon = host.start_hostlet("").await.unwrap();
    let directory = host.directory("remote").unwrap();
    let remote = HangingFilesystem::mount(&directory).unwrap();
    let path = json!({"hostPath": {"path": directory, "type": "Directory"}});
    let claim = json!({"persistentVolumeClaim": {"claimName": "data"}});
    host.write_manifest("volumes.yaml", &claimed(&directory)).unwrap();
    host.write_manifest("ends.json", &with_volume("ends", &claim)).unwrap();
    host.write_manifest("stays.json", &with_volume("stays", &claim)).unwrap();
    host.write_manifest("other.json", &manifest("other", &[("c", IDLE)])).unwrap();
    for name in ["ends", "stays", "other"] {
        wait_until_ready(&daemon, name).await.unwrap();
    }

    remote.hang();
    host.remove_manifest("ends.json").unwrap();
    host.remove_manifest("other.json").unwrap();
    // More than there are threads for the work on files.
    let waiting: Vec<String> = (0..10).map(|n| format!("waits{n}")).collect();
    for name in &waiting {
        host.write_manifest(&format!("{name}.json"), &with_volume(name, &path)).unwrap();
    }
    host.write_manifest("late.json", &with_volume("late", &json!({"emptyDir": {}}))).unwrap();
    wait_until_ready(&daemon, "late").await.unwrap();
    wait_for("the other pod to be removed", LATER, async || {
        Ok(match pod(&daemon, "other")? {
            None => Look::Done(()),
            Some(pod) => Look::NotYet(serde_json::to_string(&pod.status)?),
        })
    })
    .await
    .unwrap();

    // A daemon that starts meanwhile.
    drop(daemon);
    let daemon = host.start_hostlet("").await.unwrap();
    host.write_manifest("later.json", &manifest("later", &[("c", IDLE)])).unwrap();
    wait_until_ready(&daemon, "later").await.unwrap();
    wait_until_ready(&daemon, "late").await.unwrap();
    wait_for("why the pod waits", LATER, async || {
        let output = daemon.command(&["explain", "waits0"]).output()?;
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        Ok(if said.contains("does not respond") { Look::Done(()) } else { Look::NotYet(said) })
    })
    .await
    .unwrap();

    remote.respond();
    for name in waiting.iter().map(String::as_str).chain(["stays", "late", "later"]) {
        wait_until_ready(&daemon, name).await.unwrap();
        host.remove_manifest(&format!("{name}.json")).unwrap();
    }
    wait_until_empty(&host).await.unwrap();
}
