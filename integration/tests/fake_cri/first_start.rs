//! The first start on a runtime that somebody else uses, and starts after the store was lost.

use std::fs;
use std::net::TcpListener;
use std::os::unix::net::UnixListener;
use std::time::Duration;

use anyhow::{Context, Result};
use hostlet_integration::fake_cri::FakeHost;
use hostlet_runtime::cri::Operation;
use hostlet_runtime::cri::RuntimeService as _;
use hostlet_runtime::cri::wire::{PodSandboxConfig, PodSandboxMetadata};

use crate::support::{
    home, running, sandboxes_of, stderr, stdout, wait_for_complaint, wait_for_log, wait_until_gone,
    wait_until_ready, write_pods,
};

/// The exit code of a refused first start.
const REFUSED: i32 = 78;

/// A sandbox of a pod that another kubelet started.
async fn foreign_pod(host: &FakeHost, name: &str) -> Result<()> {
    let labels = [
        ("io.kubernetes.pod.name", name.to_owned()),
        ("io.kubernetes.pod.namespace", "kube-system".to_owned()),
        ("io.kubernetes.pod.uid", crate::support::uid(name)),
    ];
    let config = PodSandboxConfig {
        metadata: Some(PodSandboxMetadata {
            name: name.to_owned(),
            namespace: "kube-system".to_owned(),
            uid: crate::support::uid(name),
            attempt: 0,
        }),
        labels: labels.map(|(key, value)| (key.to_owned(), value)).into(),
        ..PodSandboxConfig::default()
    };
    host.runtime().run_sandbox(config, "").await.map(drop).context("a sandbox of somebody else")
}

/// The calls that change something in the runtime, except those of the test itself.
fn changes(host: &FakeHost) -> usize {
    let changing = [
        Operation::StopSandbox,
        Operation::RemoveSandbox,
        Operation::CreateContainer,
        Operation::StartContainer,
        Operation::StopContainer,
        Operation::RemoveContainer,
        Operation::UpdateRuntimeConfig,
    ];
    changing.into_iter().map(|operation| host.runtime().calls_of(operation).len()).sum()
}

#[tokio::test]
async fn a_runtime_with_pods_of_others_is_refused_and_adopted_on_request() {
    let host = FakeHost::start().unwrap();
    foreign_pod(&host, "theirs").await.unwrap();
    write_pods(&host, &["web"]).unwrap();
    // Twice: a refused start must not count as a start.
    for _ in 0..2 {
        let ended = host.run_until_it_ends("podCIDR: 10.9.0.0/16\n").await.unwrap();
        assert_eq!(ended.code(), Some(REFUSED), "{}", host.log());
    }
    let log = host.log();
    assert!(log.contains("kube-system/theirs") && log.contains("adoptForeignPods: true"), "{log}");
    assert_eq!((changes(&host), sandboxes_of(&host, "theirs")), (0, vec![0]), "{log}");
    assert!(!host.socket().exists(), "the control socket was left");

    let daemon = host.start_hostlet_with("", "adoptForeignPods: true").await.unwrap();
    wait_until_ready(&daemon, &["web"]).await.unwrap();
    // No manifest names it.
    wait_until_gone(&host, "theirs").await.unwrap();
    daemon.stop().await.unwrap();
    // The permission was needed once.
    let daemon = host.start_hostlet("").await.unwrap();
    wait_until_ready(&daemon, &["web"]).await.unwrap();
}

#[tokio::test]
async fn a_lost_store_is_no_first_start() {
    let host = FakeHost::start().unwrap();
    write_pods(&host, &["web"]).unwrap();
    let daemon = host.start_hostlet("").await.unwrap();
    wait_until_ready(&daemon, &["web"]).await.unwrap();
    let before = running(&host);
    daemon.kill().unwrap();
    fs::remove_dir_all(home(&host)).unwrap();
    let daemon = host.start_hostlet("").await.unwrap();
    wait_until_ready(&daemon, &["web"]).await.unwrap();
    assert_eq!(running(&host), before);
    daemon.kill().unwrap();
    // The record itself is damaged.
    fs::remove_dir_all(home(&host)).unwrap();
    fs::write(host.directory().join("kubelet/hostlet-claim.json"), "{").unwrap();
    let daemon = host.start_hostlet("").await.unwrap();
    wait_until_ready(&daemon, &["web"]).await.unwrap();
    assert_eq!(running(&host), before);
    daemon.kill().unwrap();
    // Everything is lost: now nothing tells them from anybody else's.
    fs::remove_dir_all(home(&host)).unwrap();
    fs::remove_file(host.directory().join("kubelet/hostlet-claim.json")).unwrap();
    let ended = host.run_until_it_ends("").await.unwrap();
    assert_eq!(ended.code(), Some(REFUSED), "{}", host.log());
    assert_eq!(running(&host), before);
}

#[tokio::test]
async fn a_kubelet_on_the_same_root_directory_is_refused_while_it_listens() {
    let host = FakeHost::start().unwrap();
    let sockets = host.directory().join("kubelet/pod-resources");
    fs::create_dir_all(&sockets).unwrap();
    let listener = UnixListener::bind(sockets.join("kubelet.sock")).unwrap();
    let ended = host.run_until_it_ends("").await.unwrap();
    assert_eq!(ended.code(), Some(REFUSED), "{}", host.log());
    assert!(host.log().contains("pod-resources/kubelet.sock"), "{}", host.log());
    drop(listener);
    let daemon = host.start_hostlet("").await.unwrap();
    write_pods(&host, &["web"]).unwrap();
    wait_until_ready(&daemon, &["web"]).await.unwrap();
}

#[tokio::test]
async fn a_first_start_waits_for_the_runtime_before_it_decides() {
    let mut host = FakeHost::start().unwrap();
    foreign_pod(&host, "theirs").await.unwrap();
    host.cri.crash();
    let mut daemon = host.start_hostlet("").await.unwrap();
    wait_for_complaint(&daemon, "the runtime is away", |said| said.contains("This node:")).await.unwrap();
    wait_for_log(&daemon, "first start on this runtime").await.unwrap();
    host.cri.resume().unwrap();
    let ended = daemon.wait_until_it_ends(Duration::from_secs(120)).await.unwrap();
    assert_eq!(ended.code(), Some(REFUSED), "{}", host.log());
    assert_eq!(changes(&host), 0);
}

#[tokio::test]
async fn doctor_predicts_the_refusal_and_purge_removes_only_own_pods() {
    let host = FakeHost::start().unwrap();
    foreign_pod(&host, "theirs").await.unwrap();
    write_pods(&host, &["web"]).unwrap();
    let ended = host.run_until_it_ends("").await.unwrap();
    assert_eq!(ended.code(), Some(REFUSED));
    let doctor = host.command_without_daemon(&["doctor", "-o", "json"]).unwrap().output().unwrap();
    let findings: serde_json::Value = serde_json::from_slice(&doctor.stdout).unwrap();
    let pods = findings.as_array().unwrap().iter().find(|finding| finding["check"] == "pods").unwrap();
    assert!(
        pods["level"] == "wrong" && pods["text"].as_str().unwrap().contains("kube-system/theirs"),
        "{pods}"
    );
    assert_eq!(doctor.status.code(), Some(1), "{findings}");
    let refused = host.command_without_daemon(&["purge", "--yes"]).unwrap().output().unwrap();
    assert!(stdout(&refused).contains("left   pod kube-system/theirs"), "{refused:?}");
    assert_eq!(sandboxes_of(&host, "theirs"), [0]);

    // hostlet runs, adopts, and a pod of somebody else comes later.
    let daemon = host.start_hostlet_with("", "adoptForeignPods: true").await.unwrap();
    wait_until_ready(&daemon, &["web"]).await.unwrap();
    crate::support::wait_until_stored(&host, hostlet_store::Table::AdmittedPods, |uids| uids.len() == 1)
        .await
        .unwrap();
    let purge = |args: &[&str]| {
        let args: Vec<&str> = ["purge"].into_iter().chain(args.iter().copied()).collect();
        host.command_without_daemon(&args).unwrap().output().unwrap()
    };
    let busy = purge(&["--yes"]);
    assert!(busy.status.code() == Some(1) && stderr(&busy).contains("stop it first"), "{busy:?}");
    daemon.stop().await.unwrap();
    foreign_pod(&host, "later").await.unwrap();
    let dry = purge(&["--dry-run"]);
    assert!(dry.status.success() && stdout(&dry).contains("would remove pod default/web"), "{dry:?}");
    assert_eq!(purge(&[]).status.code(), Some(64), "nothing without --yes");
    assert_eq!(running(&host).len(), 1);
    let mut done = purge(&["--yes"]);
    assert!(done.status.success(), "{done:?}");
    assert_eq!((running(&host).len(), sandboxes_of(&host, "later")), (0, vec![0]));
    assert!(!home(&host).exists() && !host.directory().join("kubelet/hostlet-claim.json").exists());
    done = purge(&["--yes"]);
    assert!(done.status.success(), "twice: {done:?}");
}

#[tokio::test]
async fn a_purge_without_the_runtime_removes_nothing() {
    let mut host = FakeHost::start().unwrap();
    write_pods(&host, &["web"]).unwrap();
    let daemon = host.start_hostlet("").await.unwrap();
    wait_until_ready(&daemon, &["web"]).await.unwrap();
    crate::support::wait_until_stored(&host, hostlet_store::Table::AdmittedPods, |uids| uids.len() == 1)
        .await
        .unwrap();
    daemon.stop().await.unwrap();
    host.cri.crash();
    let purged = host.command_without_daemon(&["purge", "--yes"]).unwrap().output().unwrap();
    assert_eq!(purged.status.code(), Some(1), "{purged:?}");
    assert!(stderr(&purged).contains("container runtime does not answer"), "{purged:?}");
    assert!(home(&host).join("store.redb").exists());
    assert!(host.directory().join("kubelet/pods").join(crate::support::uid("web")).exists());
}

#[tokio::test]
async fn a_host_with_pods_of_a_kubelet_of_another_runtime_is_refused_although_its_ports_are_in_use() {
    let host = FakeHost::start().unwrap();
    // That kubelet's pods are in another runtime, and it restarts: no socket of it answers.
    let volume = host.directory().join("kubelet/pods/of-others/volumes/kubernetes.io~empty-dir/v");
    let log = host.logs().join("ns_web_of-others/c");
    for dir in [&volume, &log] {
        fs::create_dir_all(dir).unwrap();
    }
    fs::write(volume.join("data"), "precious").unwrap();
    fs::write(log.join("0.log"), "").unwrap();
    let port = TcpListener::bind("127.0.0.1:0").unwrap();
    let healthz = [format!("--healthz-port={}", port.local_addr().unwrap().port())];
    for _ in 0..2 {
        let ended = host.run_with_until_it_ends(&healthz).await.unwrap();
        assert_eq!(ended.code(), Some(REFUSED), "{}", host.log());
    }
    // Nor is its root directory a mount of its own, as it becomes where nothing is shared.
    let (mounts, root) =
        (fs::read_to_string("/proc/self/mountinfo").unwrap(), host.directory().join("kubelet"));
    assert!(!mounts.contains(root.to_str().unwrap()), "{mounts}");
    let said = host.log();
    assert!(said.contains("(UID of-others)") && said.contains("--root-dir"), "{said}");
    let doctor = host.command_without_daemon(&["doctor", "-o", "json"]).unwrap().output().unwrap();
    let findings: serde_json::Value = serde_json::from_slice(&doctor.stdout).unwrap();
    let pods = findings.as_array().unwrap().iter().find(|finding| finding["check"] == "pods").unwrap();
    assert!(pods["level"] == "wrong" && pods["text"].as_str().unwrap().contains("of-others"), "{pods}");
    // With the permission it takes over the runtime, and leaves alone what is not its own.
    write_pods(&host, &["web"]).unwrap();
    let daemon = host.start_hostlet_with("", "adoptForeignPods: true").await.unwrap();
    wait_until_ready(&daemon, &["web"]).await.unwrap();
    wait_for_complaint(&daemon, "what is left is reported", |said| said.contains("of-others")).await.unwrap();
    assert!(volume.join("data").exists() && log.join("0.log").exists(), "{}", host.log());
}

#[tokio::test]
async fn pods_that_hostlet_cannot_run_are_not_taken_over() {
    let host = FakeHost::start().unwrap();
    foreign_pod(&host, "theirs").await.unwrap();
    let mount = host.directory().join("kubelet/pods").join(crate::support::uid("theirs"));
    fs::create_dir_all(mount.join("volumes/kubernetes.io~iscsi/pvc-1/mount")).unwrap();
    for _ in 0..2 {
        let ended = host.run_with_until_it_ends(&["--adopt-foreign-pods".to_owned()]).await.unwrap();
        assert_eq!(ended.code(), Some(REFUSED), "{}", host.log());
    }
    let said = host.log();
    assert!(said.contains("kube-system/theirs (it has volumes of kubernetes.io~iscsi"), "{said}");
    assert_eq!((changes(&host), sandboxes_of(&host, "theirs")), (0, vec![0]), "{said}");
}
