//! Volumes with a real runtime and real mounts: from the containers' view, after a restart and after removal, which stops at a mount.

#![allow(clippy::unwrap_used, reason = "a helper of a test fails its test")]

use std::fs;
use std::os::unix::fs::PermissionsExt;
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
        {"name": "closed", "emptyDir": {"mode": 0o1770}},
        {"name": "own", "downwardAPI": {"defaultUser": 7, "items": labels()["items"]}},
        {"name": "host", "hostPath": {"path": shared, "type": "DirectoryOrCreate"}},
        {"name": "down", "downwardAPI": labels()},
        {"name": "proj", "projected": {"sources": [{"downwardAPI": labels()}]}}
    ]);
    let script = format!(
        "stat -c '%a %g' /empty /mem; stat -L -c '%n %a %u' /closed /own/labels; \
         grep -c ' /mem tmpfs' /proc/mounts; cat /down/labels /proj/labels; \
         touch /down/x || echo read-only; echo data > /empty/f; echo data > /host/f; \
         dd if=/dev/zero of=/mem/f bs=1M count=2 || echo bounded; echo end; {IDLE}"
    );
    host.write_manifest("vol.json", &manifest("vol", &script, &volumes)).unwrap();
    let pod = wait_until_ready(&daemon, "vol").await.unwrap();
    let log = wait_for_log(&host, &pod, "main", "end").await.unwrap();
    let shown: Vec<_> = log.lines().filter_map(|line| line.split(" F ").nth(1)).collect();
    let owned = ["2777 3000", "3777 3000", "/closed 3770 0", "/own/labels 644 7"];
    let wanted = owned.iter().chain(&["1", "app=\"vol\"", "read-only", "bounded", "end"]);
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

#[tokio::test]
async fn objects_of_files_serve_a_pod_and_change_with_them() {
    let host = RealHost::start().await.unwrap();
    let daemon = host.start_hostlet("").await.unwrap();
    let disk = host.directory("disk").unwrap();
    fs::write(disk.join("old"), "theirs").unwrap();
    let config = |value: &str| {
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "app"}, "data": {"k": value}})
            .to_string()
    };
    let volumes = json!([
        {"name": "app", "configMap": {"name": "app"}}, {"name": "secret", "secret": {"secretName": "pw"}},
        {"name": "data", "persistentVolumeClaim": {"claimName": "data"}},
        {"name": "host", "persistentVolumeClaim": {"claimName": "host", "readOnly": true}}
    ]);
    let script = format!(
        "cat /data/old; echo; cat /secret/k; echo; stat -c '%a %g' /data/old; echo new > /data/f; \
         cat /host/f; touch /host/x 2>/dev/null || echo read-only; id -G | grep -ow 4242; echo end; {IDLE}"
    );
    host.write_manifest("web.json", &manifest("web", &script, &volumes)).unwrap();
    wait_for_explanation(&daemon, "web", "configmap \"app\" not found").await;

    let volume = |name: &str, source: &str, claim: Value| {
        let spec = json!({source: {"path": disk}, "claimRef": claim});
        let meta = json!({"name": name, "annotations": {"pv.beta.kubernetes.io/gid": "4242"}});
        json!({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": meta, "spec": spec}).to_string()
    };
    let claim = |name: &str, spec: Value| {
        let meta = json!({"name": name});
        json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": meta, "spec": spec})
            .to_string()
    };
    host.write_manifest("app.yaml", &config("one")).unwrap();
    let both = [
        volume("pv-data", "local", json!({"name": "data"})),
        claim("data", json!({})),
        volume("pv-host", "hostPath", json!(null)),
        claim("host", json!({"volumeName": "pv-host"})),
    ];
    host.write_manifest("volumes.yaml", &both.join("\n---\n")).unwrap();
    // Refused until only root can read it.
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "pw"}, "stringData": {"k": "s3cret"}});
    host.write_manifest("pw.yaml", &secret.to_string()).unwrap();
    let path = host.manifests().join("pw.yaml");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
    let refused = wait_for("the remedy in the log", LATER, async || {
        let log = daemon.log();
        Ok(if log.contains("chmod 600") { Look::Done(()) } else { Look::NotYet(log) })
    });
    refused.await.unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();

    let pod = wait_until_ready(&daemon, "web").await.unwrap();
    let log = wait_for_log(&host, &pod, "main", "end").await.unwrap();
    let shown: Vec<_> = log.lines().filter_map(|line| line.split(" F ").nth(1)).collect();
    assert_eq!(shown, ["theirs", "s3cret", "664 3000", "new", "read-only", "4242", "end"], "{log}");
    let dir = pod_dir(&host, &uid(&pod));
    let file = dir.join("volumes/kubernetes.io~configmap/app/k");
    assert_eq!(fs::read_to_string(&file).unwrap(), "one");
    host.write_manifest("app.yaml", &config("two")).unwrap();
    let changed = wait_for("the changed ConfigMap", LATER, async || {
        let text = fs::read_to_string(&file)?;
        Ok(if text == "two" { Look::Done(()) } else { Look::NotYet(text) })
    });
    changed.await.unwrap();
    assert_eq!(uid(&wait_until_ready(&daemon, "web").await.unwrap()), uid(&pod), "the same pod");

    // The mount survives the daemon, and the directory the pod.
    drop(daemon);
    let daemon = host.start_hostlet("").await.unwrap();
    assert_eq!(uid(&wait_until_ready(&daemon, "web").await.unwrap()), uid(&pod));
    assert!(dir.join("volumes/kubernetes.io~local-volume/pv-data/old").exists());
    host.remove_manifest("web.json").unwrap();
    wait_until_gone(&daemon, &dir).await;
    wait_until_empty(&host).await.unwrap();
    assert_eq!(fs::read_to_string(disk.join("f")).unwrap(), "new\n");
}

/// Waits until `hostlet explain` names what the pod waits for.
async fn wait_for_explanation(daemon: &Daemon, pod: &str, text: &str) {
    let explained = wait_for(text, LATER, async || {
        let output = daemon.command(&["explain", pod]).output()?;
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        Ok(if said.contains(text) { Look::Done(()) } else { Look::NotYet(said) })
    });
    explained.await.unwrap();
}

/// Huge pages of 2 MiB that the machine has meanwhile.
struct HugePages {
    before: String,
}

impl HugePages {
    const POOL: &str = "/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages";

    /// Reserves pages; `None` if this machine has none to spare.
    fn reserve(pages: u32) -> Option<Self> {
        let before = fs::read_to_string(Self::POOL).ok()?;
        fs::write(Self::POOL, pages.to_string()).ok()?;
        let pool = Self { before };
        fs::read_to_string(Self::POOL).is_ok_and(|now| now.trim() == pages.to_string()).then_some(pool)
    }
}

impl Drop for HugePages {
    fn drop(&mut self) {
        let _ = fs::write(Self::POOL, self.before.trim());
    }
}

#[tokio::test]
async fn a_volume_in_huge_pages_is_mounted_and_removed() {
    let Some(_pool) = HugePages::reserve(16) else {
        eprintln!("skipped: no huge pages of 2 MiB");
        return;
    };
    let host = RealHost::start().await.unwrap();
    let daemon = host.start_hostlet("").await.unwrap();
    let script =
        format!("grep ' /huge ' /proc/mounts; fallocate -l 2097152 /huge/f && echo taken; echo end; {IDLE}");
    let volumes = json!([{"name": "huge", "emptyDir": {"medium": "HugePages"}}]);
    let mut of_pages: Value = serde_json::from_str(&manifest("huge", &script, &volumes)).unwrap();
    of_pages["spec"]["containers"][0]["resources"] =
        json!({"limits": {"memory": "32Mi", "hugepages-2Mi": "4Mi"}});
    host.write_manifest("huge.json", &of_pages.to_string()).unwrap();
    let pod = wait_until_ready(&daemon, "huge").await.unwrap();
    let log = wait_for_log(&host, &pod, "main", "end").await.unwrap();
    assert!(log.contains(" hugetlbfs ") && log.contains("pagesize=2M") && log.contains("taken"), "{log}");
    host.remove_manifest("huge.json").unwrap();
    wait_until_gone(&daemon, &pod_dir(&host, &uid(&pod))).await;
    wait_until_empty(&host).await.unwrap();
}
