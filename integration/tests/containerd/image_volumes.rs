//! Images as volumes: pulled by the daemon, mounted by the runtime, and refused where the runtime cannot mount them.

use hostlet_integration::real::{BUSYBOX_IMAGE, Daemon, Manner, RealHost, containerd_version};
use hostlet_integration::{Look, wait_for};
use serde_json::{Value, json};

use crate::support::{IDLE, LATER, SOON, is_ready, statuses, wait_for_log, wait_for_pod, wait_until_empty};

/// A pod whose container runs `script` with these mounts of `image`.
fn manifest(image: &str, script: &str, mounts: &Value) -> String {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "model", "namespace": "default"},
        "spec": {
            "terminationGracePeriodSeconds": 2,
            "containers": [{
                "name": "main", "image": BUSYBOX_IMAGE, "command": ["sh", "-c", script], "volumeMounts": mounts
            }],
            "volumes": [{"name": "model", "image": {"reference": image, "pullPolicy": "IfNotPresent"}}]
        }
    })
    .to_string()
}

fn whole() -> Value {
    json!([{"name": "model", "mountPath": "/model"}])
}

async fn wait_until_refused(daemon: &Daemon, why: &str) {
    let refused = wait_for_pod(daemon, "model", SOON, |pod| {
        let waiting = statuses(pod).first().and_then(|status| status.state.as_ref()?.waiting.clone());
        waiting.and_then(|waiting| waiting.message).is_some_and(|message| message.contains(why))
    });
    let pod = refused.await.unwrap();
    let waiting = statuses(&pod)[0].state.clone().unwrap().waiting.unwrap();
    assert_eq!(waiting.reason.as_deref(), Some("CreateContainerConfigError"));
    // It exits with 1, because the pod has a problem.
    let explained = daemon.command(&["explain", "model"]).output().unwrap();
    let explained = String::from_utf8_lossy(&explained.stdout);
    assert!(explained.contains("update containerd"), "{explained}");
}

#[tokio::test]
async fn an_image_is_a_volume_where_the_runtime_mounts_images() {
    let host = RealHost::start().await.unwrap();
    let registry = host.registry(Manner::Slow).unwrap();
    let daemon = host.start_hostlet("").await.unwrap();
    let image = registry.reference();
    let script = format!("cat /model/etc/image; touch /model/new || echo it is read-only; {IDLE}");
    host.write_manifest("model.json", &manifest(&image, &script, &whole())).unwrap();
    if containerd_version().unwrap() < (2, 1) {
        wait_until_refused(&daemon, "volume \"model\" is an image: containerd").await;
        assert!(!host.ctr(&["images", "ls", "-q"]).unwrap().contains(&image), "nothing is pulled in vain");
        return;
    }
    let explained = wait_for("the pull in the explanation", SOON, async || {
        let explained = daemon.command(&["explain", "model"]).output()?;
        let explained = String::from_utf8_lossy(&explained.stdout).into_owned();
        let pulls = explained.contains(&format!("the image {image} is being pulled for volume model"));
        Ok(if pulls { Look::Done(explained) } else { Look::NotYet(explained) })
    });
    explained.await.unwrap();
    registry.go_on();
    let pod = wait_for_pod(&daemon, "model", LATER, is_ready).await.unwrap();
    let log = wait_for_log(&host, &pod, "main", "it is read-only").await.unwrap();
    assert!(log.contains("hostlet.local/registry:1"), "{log}");

    // A new daemon starts nothing again, and the runtime releases the mount with the pod.
    daemon.kill().unwrap();
    let daemon = host.start_hostlet("").await.unwrap();
    let again = wait_for_pod(&daemon, "model", SOON, is_ready).await.unwrap();
    assert_eq!(statuses(&again)[0].container_id, statuses(&pod)[0].container_id);
    host.remove_manifest("model.json").unwrap();
    wait_until_empty(&host).await.unwrap();
}

#[tokio::test]
async fn a_part_of_an_image_is_mounted_or_refused_but_never_the_whole() {
    let version = containerd_version().unwrap();
    if version < (2, 1) {
        return;
    }
    let host = RealHost::start().await.unwrap();
    let daemon = host.start_hostlet("").await.unwrap();
    let mounts = json!([{"name": "model", "mountPath": "/model", "subPath": "etc"}]);
    let script = format!("cat /model/image && test ! -e /model/bin && echo only this; {IDLE}");
    host.write_manifest("model.json", &manifest(BUSYBOX_IMAGE, &script, &mounts)).unwrap();
    if version < (2, 2) {
        wait_until_refused(&daemon, "the subPath of volume \"model\" is in an image: containerd").await;
        return;
    }
    let pod = wait_for_pod(&daemon, "model", SOON, is_ready).await.unwrap();
    wait_for_log(&host, &pod, "main", "only this").await.unwrap();
}
