//! Volumes with a real runtime and real mounts: from the containers' view, after a restart and after removal, which stops at a mount.

#![allow(clippy::unwrap_used, reason = "a helper of a test fails its test")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use hostlet_integration::real::{BUSYBOX_IMAGE, Daemon, RealHost};
use hostlet_integration::{Look, wait_for};
use serde_json::{Value, json};

use crate::support::{IDLE, LATER, SOON, pod, uid, wait_for_log, wait_until_empty, wait_until_ready};

/// A pod with one container, `main`, and these volumes at `/<name>` each.
fn manifest(name: &str, script: &str, volumes: &Value) -> String {
    let names = volumes.as_array().unwrap().iter().map(|volume| volume["name"].as_str().unwrap());
    let mounts: Vec<_> = names.map(|name| json!({"name": name, "mountPath": format!("/{name}")})).collect();
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "labels": {"app": name}},
        "spec": {
            "terminationGracePeriodSeconds": 2,
            "securityContext": {"fsGroup": 3000},
            "containers": [{
                "name": "main", "image": BUSYBOX_IMAGE, "command": ["sh", "-c", script], "volumeMounts": mounts
            }],
            "volumes": volumes
        }
    })
    .to_string()
}

fn labels() -> Value {
    json!({"items": [{"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}}]})
}

fn pod_dir(host: &RealHost, uid: &str) -> PathBuf {
    host.kubelet_root().join("pods").join(uid)
}

async fn wait_until_gone(daemon: &Daemon, dir: &Path) {
    let gone = wait_for("the pod's directory to go", LATER, async || {
        let left = daemon.pods()?.len();
        let log = daemon.log();
        Ok(if dir.exists() { Look::NotYet(format!("{left} pods; {log}")) } else { Look::Done(()) })
    });
    gone.await.unwrap();
}

#[tokio::test]
async fn containers_see_their_volumes_and_all_are_removed() {
    let host = RealHost::start().await.unwrap();
    let daemon = host.start_hostlet("").await.unwrap();
    let shared = host.kubelet_root().parent().unwrap().join("shared/dir");
    let volumes = json!([
        {"name": "empty", "emptyDir": {}},
        {"name": "mem", "emptyDir": {"medium": "Memory", "sizeLimit": "1Mi"}},
        {"name": "host", "hostPath": {"path": shared, "type": "DirectoryOrCreate"}},
        {"name": "down", "downwardAPI": labels()},
        {"name": "proj", "projected": {"sources": [{"downwardAPI": labels()}]}}
    ]);
    let script = format!(
        "stat -c '%a %g' /empty /mem; grep -c ' /mem tmpfs' /proc/mounts; cat /down/labels /proj/labels; \
         touch /down/x || echo read-only; echo data > /empty/f; echo data > /host/f; \
         dd if=/dev/zero of=/mem/f bs=1M count=2 || echo bounded; echo end; {IDLE}"
    );
    host.write_manifest("vol.json", &manifest("vol", &script, &volumes)).unwrap();
    let pod = wait_until_ready(&daemon, "vol").await.unwrap();
    let log = wait_for_log(&host, &pod, "main", "end").await.unwrap();
    let shown: Vec<_> = log.lines().filter_map(|line| line.split(" F ").nth(1)).collect();
    let wanted = ["2777 3000", "3777 3000", "1", "app=\"vol\"", "app=\"vol\"", "read-only", "bounded", "end"];
    // The file of labels has no newline at its end, so the two files may share a line.
    let text = shown.join("\n");
    for wanted in wanted {
        assert!(text.contains(wanted), "{wanted}: {log}");
    }

    host.remove_manifest("vol.json").unwrap();
    wait_until_gone(&daemon, &pod_dir(&host, &uid(&pod))).await;
    wait_until_empty(&host).await.unwrap();
    assert_eq!(fs::read_to_string(shared.join("f")).unwrap(), "data\n");
}

#[tokio::test]
async fn a_restart_keeps_volumes_and_removes_those_no_longer_needed() {
    let host = RealHost::start().await.unwrap();
    let daemon = host.start_hostlet("").await.unwrap();
    let volumes =
        json!([{"name": "mem", "emptyDir": {"medium": "Memory"}}, {"name": "down", "downwardAPI": labels()}]);
    let script = format!("echo kept > /mem/f; echo up; {IDLE}");
    host.write_manifest("vol.json", &manifest("vol", &script, &volumes)).unwrap();
    let pod = wait_until_ready(&daemon, "vol").await.unwrap();
    wait_for_log(&host, &pod, "main", "up").await.unwrap();
    let dir = pod_dir(&host, &uid(&pod));
    let file = dir.join("volumes/kubernetes.io~empty-dir/mem/f");
    drop(daemon);
    let daemon = host.start_hostlet("").await.unwrap();
    wait_until_ready(&daemon, "vol").await.unwrap();
    assert_eq!(fs::read_to_string(&file).unwrap(), "kept\n");
    // Removed while no daemon runs.
    drop(daemon);
    host.remove_manifest("vol.json").unwrap();
    let daemon = host.start_hostlet("").await.unwrap();
    wait_until_gone(&daemon, &dir).await;
    wait_until_empty(&host).await.unwrap();
}

#[tokio::test]
async fn removal_stops_at_a_mount_that_is_not_ours() {
    let host = RealHost::start().await.unwrap();
    let daemon = host.start_hostlet("").await.unwrap();
    let volumes = json!([{"name": "empty", "emptyDir": {}}]);
    host.write_manifest("vol.json", &manifest("vol", IDLE, &volumes)).unwrap();
    let pod = wait_until_ready(&daemon, "vol").await.unwrap();
    let dir = pod_dir(&host, &uid(&pod));
    let precious = host.kubelet_root().parent().unwrap().join("precious");
    fs::create_dir_all(&precious).unwrap();
    fs::write(precious.join("f"), "mine").unwrap();
    let point = dir.join("volumes/kubernetes.io~empty-dir/empty/disk");
    fs::create_dir(&point).unwrap();
    // On the same filesystem, so that only the list of mounts distinguishes it from a directory.
    let bound = Command::new("mount").arg("--bind").arg(&precious).arg(&point).status().unwrap();
    assert!(bound.success());

    host.remove_manifest("vol.json").unwrap();
    let logged = wait_for("the mount in the log", LATER, async || {
        let log = daemon.log();
        Ok(if log.contains("has something mounted in it") { Look::Done(()) } else { Look::NotYet(log) })
    })
    .await;
    let kept = fs::read_to_string(precious.join("f"));
    // Whatever the result, the mount must not outlive the test.
    assert!(Command::new("umount").arg(&point).status().unwrap().success());
    logged.unwrap();
    assert_eq!(kept.unwrap(), "mine");
    wait_until_gone(&daemon, &dir).await;
    assert!(precious.join("f").exists());
}

#[tokio::test]
async fn a_host_path_of_another_type_prevents_the_start_and_is_reported() {
    let host = RealHost::start().await.unwrap();
    let daemon = host.start_hostlet("").await.unwrap();
    let path = host.kubelet_root().parent().unwrap().join("later");
    let volumes = json!([{"name": "host", "hostPath": {"path": path, "type": "Directory"}}]);
    host.write_manifest("vol.json", &manifest("vol", IDLE, &volumes)).unwrap();
    let expected = format!(
        "MountVolume.SetUp failed for volume \"host\" : hostPath type check failed: {} is not a directory",
        path.display()
    );
    let explained = wait_for("the explanation", SOON, async || {
        // The exit code shows that there is a problem.
        let output = daemon.command(&["explain", "vol"]).output()?;
        let explained = String::from_utf8(output.stdout)?;
        Ok(if explained.contains(&expected) { Look::Done(()) } else { Look::NotYet(explained) })
    });
    explained.await.unwrap();
    assert!(host.cri().sandboxes().await.unwrap().is_empty());
    assert!(pod(&daemon, "vol").unwrap().is_some());
    fs::create_dir(&path).unwrap();
    wait_until_ready(&daemon, "vol").await.unwrap();
}

#[tokio::test]
async fn a_container_sees_only_its_parts_of_volumes_also_after_its_restart() {
    let host = RealHost::start().await.unwrap();
    let daemon = host.start_hostlet("").await.unwrap();
    let shared = host.kubelet_root().parent().unwrap().join("shared");
    fs::create_dir_all(shared.join("web")).unwrap();
    fs::write(shared.join("web/page"), "page\n").unwrap();
    std::os::unix::fs::symlink("/etc", shared.join("escape")).unwrap();
    let of = |name: &str, mounts: Value, script: &str| {
        let env = json!([{"name": "NAME", "value": name}]);
        let volumes = json!([{"name": "host", "hostPath": {"path": shared}}, {"name": "empty", "emptyDir": {}},
            {"name": "down", "downwardAPI": labels()}]);
        json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default", "labels": {"app": name}},
            "spec": {"terminationGracePeriodSeconds": 1, "volumes": volumes, "containers": [{
                "name": "main", "image": BUSYBOX_IMAGE, "env": env, "command": ["sh", "-c", script], "volumeMounts": mounts
            }]}
        })
        .to_string()
    };
    let mounts = json!([
        {"name": "host", "mountPath": "/dir", "subPathExpr": "$(NAME)"},
        {"name": "host", "mountPath": "/page", "subPath": "web/page", "readOnly": true},
        {"name": "empty", "mountPath": "/new", "subPath": "a/b"},
        {"name": "down", "mountPath": "/etc/labels", "subPath": "labels"}
    ]);
    // The first instance ends at once; the second finds what the first one wrote.
    let script = format!(
        "cat /dir/page /page; echo x > /page || echo read-only; cat /etc/labels; echo; echo shown; \
         [ -e /new/f ] || {{ echo first > /new/f; exit 1; }}; cp /new/f /dir/seen; {IDLE}"
    );
    host.write_manifest("web.json", &of("web", mounts, &script)).unwrap();
    let pod = wait_until_ready(&daemon, "web").await.unwrap();
    let log = wait_for_log(&host, &pod, "main", "shown").await.unwrap();
    for wanted in ["page", "read-only", "app=\"web\""] {
        assert!(log.contains(wanted), "{wanted}: {log}");
    }
    wait_for("the second instance to see the first one's file", SOON, async || {
        let seen = fs::read_to_string(shared.join("web/seen")).unwrap_or_default();
        Ok(if seen == "first\n" { Look::Done(()) } else { Look::NotYet(seen) })
    })
    .await
    .unwrap();
    let escapes = json!([{"name": "host", "mountPath": "/x", "subPath": "escape/passwd"}]);
    host.write_manifest("escape.json", &of("escape", escapes, IDLE)).unwrap();
    wait_for("the escape to be refused", LATER, async || {
        let pods = daemon.pods()?;
        let text = serde_json::to_string(&pods)?;
        let refused = text.contains("CreateContainerConfigError")
            && text
                .contains("failed to prepare subPath for volumeMount \\\"host\\\" of container \\\"main\\\"");
        Ok(if refused { Look::Done(()) } else { Look::NotYet(text) })
    })
    .await
    .unwrap();

    host.remove_manifest("web.json").unwrap();
    host.remove_manifest("escape.json").unwrap();
    wait_until_gone(&daemon, &pod_dir(&host, &uid(&pod))).await;
    wait_until_empty(&host).await.unwrap();
    assert_eq!(fs::read_to_string(shared.join("web/page")).unwrap(), "page\n");
}
