//! Commands that act on pods or on the host, on a real containerd: `restart`, `doctor`, `purge`, and a first start.

use std::collections::HashSet;
use std::fs;
use std::process::Output;

use hostlet_integration::real::{BUSYBOX_IMAGE, PAUSE_IMAGE, RealHost, pause_archive};
use serde_json::{Value, json};

use crate::support::{
    IDLE, LATER, SOON, exec, manifest, running_containers, statuses, wait_for_pod, wait_until_no_strays,
    wait_until_ready,
};

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// A subcommand about the daemon that ran on this host, without it.
fn without_daemon(host: &RealHost, program: &std::path::Path, args: &[&str]) -> Output {
    let root = host.kubelet_root();
    let config = root.parent().unwrap().join("config.yaml");
    let mut command = host.command(&program.to_string_lossy());
    command.args(args).arg("--config").arg(config).arg("--root-dir").arg(root);
    command.output().unwrap()
}

#[tokio::test]
async fn a_restarted_container_counts_and_its_neighbour_goes_on() {
    let host = RealHost::start().await.unwrap();
    let daemon = host.start_hostlet("").await.unwrap();
    host.write_manifest("app.json", &manifest("app", &[("one", IDLE), ("two", IDLE)])).unwrap();
    wait_until_ready(&daemon, "app").await.unwrap();
    let before = running_containers(&host).await.unwrap();
    daemon.cli(&["restart", "app", "-c", "one"]).unwrap();
    let restarted = |pod: &k8s_openapi::api::core::v1::Pod| {
        let counts: Vec<i32> = statuses(pod).iter().filter(|s| s.ready).map(|s| s.restart_count).collect();
        counts == [1, 0]
    };
    wait_for_pod(&daemon, "app", SOON, restarted).await.unwrap();
    let after = running_containers(&host).await.unwrap();
    assert_eq!(before.keys().filter(|id| after.contains_key(*id)).count(), 1, "{before:?} → {after:?}");
    assert!(daemon.cli(&["events", "app"]).unwrap().contains("will be restarted on request"));
}

#[tokio::test]
async fn a_runtime_of_somebody_else_is_refused_and_a_purge_leaves_nothing_of_ours() {
    let host = RealHost::start().await.unwrap();
    let daemon = host.start_hostlet("").await.unwrap();
    let spec = json!({
        "terminationGracePeriodSeconds": 2,
        "volumes": [{"name": "disk", "emptyDir": {}}, {"name": "memory", "emptyDir": {"medium": "Memory"}}],
        "containers": [{
            "name": "idle", "image": BUSYBOX_IMAGE, "command": ["sh", "-c", IDLE],
            "volumeMounts": [{"name": "disk", "mountPath": "/disk"}, {"name": "memory", "mountPath": "/memory"}],
        }],
    });
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "app", "namespace": "default"}, "spec": spec});
    host.write_manifest("app.json", &pod.to_string()).unwrap();
    wait_until_ready(&daemon, "app").await.unwrap();
    exec(&daemon, "app", &[], &["sh", "-c", "echo x > /disk/file; echo x > /memory/file"]);
    let program = daemon.program().to_owned();
    daemon.stop().await.unwrap();
    let before = running_containers(&host).await.unwrap();
    assert_eq!(before.len(), 1);

    // Another daemon, which has never run here.
    let claim = host.kubelet_root().join("hostlet-claim.json");
    let store = host.kubelet_root().join("hostlet");
    let (kept_claim, kept_store) = (claim.with_extension("kept"), store.with_extension("kept"));
    fs::rename(&claim, &kept_claim).unwrap();
    fs::rename(&store, &kept_store).unwrap();
    let mut refused = host.launch_hostlet("").unwrap();
    let ended = refused.wait_until_it_ends(LATER).await.unwrap();
    assert_eq!(ended.code(), Some(78), "{}", refused.log());
    drop(refused);
    assert_eq!(running_containers(&host).await.unwrap(), before);
    if store.exists() {
        fs::remove_dir_all(&store).unwrap();
    }
    fs::rename(&kept_claim, &claim).unwrap();
    fs::rename(&kept_store, &store).unwrap();

    fs::write(host.kubelet_root().join("config.yaml"), "a stock kubelet's").unwrap();
    let purged = without_daemon(&host, &program, &["purge", "--yes"]);
    assert!(purged.status.success(), "{purged:?}");
    assert!(text(&purged.stdout).contains("kubelet/config.yaml"), "{purged:?}");
    assert!(running_containers(&host).await.unwrap().is_empty());
    assert!(!store.exists() && !claim.exists());
    wait_until_no_strays(&host, &HashSet::new()).await.unwrap();
}

#[tokio::test]
async fn doctor_sees_what_is_there_and_fixes_what_a_fresh_host_lacks() {
    let host = RealHost::start().await.unwrap();
    let daemon = host.start_hostlet("").await.unwrap();
    let program = daemon.program().to_owned();
    daemon.stop().await.unwrap();
    let archive = pause_archive().unwrap();
    let archive = archive.to_str().unwrap();
    let doctor = |args: &[&str]| {
        let args: Vec<&str> = ["doctor", "-o", "json"].into_iter().chain(args.iter().copied()).collect();
        let output = without_daemon(&host, &program, &args);
        let findings: Vec<Value> =
            serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{output:?}"));
        let of =
            move |check: &str| findings.iter().find(|finding| finding["check"] == check).cloned().unwrap();
        (of, text(&output.stderr))
    };
    let (found, _) = doctor(&[]);
    for check in ["runtime", "snapshotter", "pause image", "network", "pods", "cgroup driver"] {
        assert_eq!(found(check)["level"], "ok", "{}", found(check));
    }
    assert!(found("pause image")["text"].as_str().unwrap().contains(PAUSE_IMAGE));
    let network = host.kubelet_root().parent().unwrap().join("cni/10-pods.conflist");
    assert!(found("network")["text"].as_str().unwrap().contains(network.to_str().unwrap()));
    let (_, said) = doctor(&["--fix", "--pause-archive", archive]);
    assert!(said.contains("nothing to do"), "{said}");

    fs::remove_file(&network).unwrap();
    host.ctr(&["images", "rm", "--sync", PAUSE_IMAGE]).unwrap();
    let (found, _) = doctor(&[]);
    assert_eq!(found("pause image")["level"], "warning", "{}", found("pause image"));
    assert_eq!(found("network")["level"], "wrong", "{}", found("network"));
    let (found, said) = doctor(&["--fix", "--pause-archive", archive]);
    assert!(
        said.contains("10-hostlet.conflist") && said.contains(PAUSE_IMAGE) && !said.contains("failed"),
        "{said}"
    );
    assert_eq!(found("pause image")["level"], "ok", "{said} {}", found("pause image"));
    assert_eq!(found("network")["level"], "ok", "{said} {}", found("network"));
    let (_, said) = doctor(&["--fix", "--pause-archive", archive]);
    assert!(said.contains("nothing to do"), "{said}");
    // Pods run on what was fixed.
    let daemon = host.start_hostlet("").await.unwrap();
    host.write_manifest("app.json", &manifest("app", &[("idle", IDLE)])).unwrap();
    wait_until_ready(&daemon, "app").await.unwrap();
}
