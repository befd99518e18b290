//! Purges of a directory with files and mounts of hostlet and of others.

use std::collections::BTreeSet;
use std::path::Path;

use super::*;
use hostlet_engine::ownership::runtime_pods;
use hostlet_host::testing::in_mount_namespace;
use hostlet_host::{KernelMounts, share_dir};
use hostlet_pod as pod;
use hostlet_runtime::cri::Operation;
use hostlet_runtime::cri::fake::{FakeRuntime, Fault, Rule};

async fn run(fake: &FakeRuntime, name: &str) -> PodRef {
    let pod = PodRef::new("default", name, &format!("uid-of-{name}"));
    pod::testing::run(fake, &pod, None).await;
    pod
}

fn purger(fake: &FakeRuntime, root: &Path) -> Purger {
    Purger {
        runtime: Arc::new(fake.clone()),
        root_dir: root.join("kubelet"),
        logs: LogLayout { pod_logs_dir: root.join("logs"), containers_dir: root.join("links") },
        cgroups: None,
        mounts: Arc::new(KernelMounts { mountinfo: "/proc/self/mountinfo".into() }),
        iptables: Vec::new(),
    }
}

#[tokio::test]
async fn own_pods_and_files_are_removed_and_nothing_of_others() {
    let dir = tempfile::tempdir().unwrap();
    let at = |path: &str| dir.path().join(path);
    let fake = FakeRuntime::new();
    let (ours, theirs) = (run(&fake, "ours").await, run(&fake, "theirs").await);
    for path in
        ["kubelet/hostlet", "kubelet/pki", "kubelet/pods/uid-of-ours/volumes", "kubelet/pods/uid-of-theirs"]
    {
        fs::create_dir_all(at(path)).unwrap();
    }
    fs::create_dir_all(at("logs/default_ours_uid-of-ours/c")).unwrap();
    fs::create_dir_all(at("logs/default_theirs_uid-of-theirs/c")).unwrap();
    fs::write(at("kubelet/hostlet/store.redb"), "").unwrap();
    fs::write(at("kubelet/config.yaml"), "").unwrap();
    let plan = PurgePlan {
        pods: vec![ours.clone()],
        uids: vec![ours.uid.clone(), "long-gone".into()],
        files: vec![at("kubelet/hostlet"), at("kubelet/hostlet-claim.json")],
        has_chains: false,
        claims: Vec::new(),
        unknown_claims: None,
        foreign: vec![theirs.clone()],
        other_kubelets: Vec::new(),
    };
    let purger = purger(&fake, dir.path());
    for _ in 0..2 {
        let failed = purger.perform(&plan).await;
        assert!(failed.is_empty(), "{failed:?}");
        assert_eq!(runtime_pods(&fake).await.unwrap(), BTreeSet::from([theirs.clone()]));
        let left = [at("kubelet/config.yaml"), at("kubelet/pki"), at("kubelet/pods")];
        assert_eq!(purger.remains(), left);
        assert!(at("kubelet/pods/uid-of-theirs").exists() && !at("kubelet/pods/uid-of-ours").exists());
        assert!(at("logs/default_theirs_uid-of-theirs").exists());
        assert!(!at("logs/default_ours_uid-of-ours").exists());
    }
}

#[tokio::test]
async fn a_root_directory_without_files_of_others_is_removed_with_its_checkpoints() {
    let dir = tempfile::tempdir().unwrap();
    let at = |path: &str| dir.path().join(path);
    let purger = purger(&FakeRuntime::new(), dir.path());
    for driver in [true, false] {
        for path in ["kubelet/hostlet", "kubelet/pods", "kubelet/plugins", "kubelet/checkpoints"] {
            fs::create_dir_all(at(path)).unwrap();
        }
        fs::write(at("kubelet/checkpoints/checkpoint-web_default-c-2026-11-25T10:00:00Z.tar"), "").unwrap();
        if driver {
            fs::write(at("kubelet/plugins/driver"), "").unwrap();
        }
        let files = vec![at("kubelet/hostlet"), at("kubelet/checkpoints")];
        let failed = purger.perform(&PurgePlan { files, ..PurgePlan::default() }).await;
        assert!(failed.is_empty(), "{failed:?}");
        let left = if driver { vec![at("kubelet/plugins")] } else { Vec::new() };
        assert_eq!(purger.remains(), left);
        assert_eq!(at("kubelet").exists(), driver);
        let _ = fs::remove_file(at("kubelet/plugins/driver"));
    }
}

#[tokio::test]
async fn what_a_pod_that_cannot_be_ended_uses_stays_and_so_does_the_store() {
    let dir = tempfile::tempdir().unwrap();
    let at = |path: &str| dir.path().join(path);
    let fake = FakeRuntime::new();
    let (stuck, fine) = (run(&fake, "stuck").await, run(&fake, "fine").await);
    for path in ["kubelet/hostlet", "kubelet/pods/uid-of-stuck", "kubelet/pods/uid-of-fine"] {
        fs::create_dir_all(at(path)).unwrap();
    }
    fake.faults().add(Rule::new(Operation::StopContainer, Fault::fail("busy")).pod(&stuck.uid));
    let plan = PurgePlan {
        pods: vec![stuck.clone(), fine.clone()],
        uids: vec![stuck.uid.clone(), fine.uid.clone()],
        files: vec![at("kubelet/hostlet")],
        has_chains: false,
        claims: Vec::new(),
        unknown_claims: None,
        foreign: Vec::new(),
        other_kubelets: Vec::new(),
    };
    let failed = purger(&fake, dir.path()).perform(&plan).await;
    let texts: Vec<String> = failed.iter().map(|error| error_chain(error)).collect();
    assert_eq!(texts.len(), 1, "{texts:?}");
    assert!(texts[0].contains("default/stuck") && texts[0].contains("busy"), "{texts:?}");
    assert!(at("kubelet/pods/uid-of-stuck").exists() && !at("kubelet/pods/uid-of-fine").exists());
    assert!(at("kubelet/hostlet").exists(), "the next purge needs the store");
}

#[test]
fn the_daemons_directory_is_no_mount_any_more() {
    in_mount_namespace(|dir, mounts| {
        let root = dir.join("kubelet");
        fs::create_dir_all(root.join("hostlet")).unwrap();
        share_dir(&root, mounts).unwrap();
        let purger = Purger { mounts: Arc::new(mounts.clone()), ..purger(&FakeRuntime::new(), dir) };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let perform = |files| {
            let plan = PurgePlan { files, ..PurgePlan::default() };
            let failed = runtime.block_on(purger.perform(&plan));
            assert!(failed.is_empty(), "{failed:?}");
        };
        fs::write(root.join("config.yaml"), "").unwrap();
        perform(vec![root.join("hostlet")]);
        assert_eq!(mounts.table().unwrap().at(&root).count(), 1, "another kubelet's files are in it");
        fs::remove_file(root.join("config.yaml")).unwrap();
        perform(Vec::new());
        assert!(mounts.table().unwrap().at(&root).next().is_none() && !root.exists());
    });
}
