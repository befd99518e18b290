//! Restarts of the daemon or the runtime: running pods continue, and removed pods are stopped.

use hostlet_integration::real::RealHost;

use crate::support::{IDLE, manifest, running_containers, wait_until_empty, wait_until_ready};

#[tokio::test]
async fn a_new_daemon_adopts_what_runs() {
    let host = RealHost::start().await.unwrap();
    let daemon = host.start_hostlet("").await.unwrap();
    host.write_manifest("app.json", &manifest("app", &[("one", IDLE), ("two", IDLE)])).unwrap();
    wait_until_ready(&daemon, "app").await.unwrap();
    let before = running_containers(&host).await.unwrap();
    assert_eq!(before.len(), 2);

    let status = daemon.stop().await.unwrap();
    assert!(status.success(), "SIGTERM is a regular end: {status}");
    assert_eq!(running_containers(&host).await.unwrap(), before, "the pods go on without the daemon");

    let daemon = host.start_hostlet("").await.unwrap();
    wait_until_ready(&daemon, "app").await.unwrap();
    // A second, new pod shows that the new daemon has completed its first passes.
    host.write_manifest("later.json", &manifest("later", &[("idle", IDLE)])).unwrap();
    wait_until_ready(&daemon, "later").await.unwrap();
    let after = running_containers(&host).await.unwrap();
    assert!(before.iter().all(|(id, attempt)| after.get(id) == Some(attempt)), "{before:?} → {after:?}");
    assert_eq!(after.len(), 3);

    daemon.kill().unwrap();
    let daemon = host.start_hostlet("").await.unwrap();
    wait_until_ready(&daemon, "app").await.unwrap();
    wait_until_ready(&daemon, "later").await.unwrap();
    assert_eq!(running_containers(&host).await.unwrap(), after, "a crash of the daemon harms no pod");
}

#[tokio::test]
async fn a_pod_whose_manifest_was_removed_while_no_daemon_ran_is_stopped() {
    let host = RealHost::start().await.unwrap();
    let daemon = host.start_hostlet("").await.unwrap();
    host.write_manifest("kept.json", &manifest("kept", &[("idle", IDLE)])).unwrap();
    wait_until_ready(&daemon, "kept").await.unwrap();
    let kept = running_containers(&host).await.unwrap();
    host.write_manifest("orphan.json", &manifest("orphan", &[("idle", IDLE)])).unwrap();
    wait_until_ready(&daemon, "orphan").await.unwrap();
    daemon.stop().await.unwrap();

    host.remove_manifest("orphan.json").unwrap();
    assert_eq!(running_containers(&host).await.unwrap().len(), 2);
    let daemon = host.start_hostlet("").await.unwrap();
    crate::support::wait_until_only(&host, "kept-node1").await.unwrap();
    assert_eq!(running_containers(&host).await.unwrap(), kept);

    host.remove_manifest("kept.json").unwrap();
    wait_until_empty(&host).await.unwrap();
    drop(daemon);
}

#[tokio::test]
async fn a_restart_of_the_runtime_affects_no_pod() {
    let mut host = RealHost::start().await.unwrap();
    let daemon = host.start_hostlet("").await.unwrap();
    host.write_manifest("app.json", &manifest("app", &[("idle", IDLE)])).unwrap();
    wait_until_ready(&daemon, "app").await.unwrap();
    let before = running_containers(&host).await.unwrap();

    host.restart_containerd().await.unwrap();
    host.write_manifest("later.json", &manifest("later", &[("idle", IDLE)])).unwrap();
    wait_until_ready(&daemon, "later").await.unwrap();
    wait_until_ready(&daemon, "app").await.unwrap();
    let after = running_containers(&host).await.unwrap();
    assert!(before.iter().all(|(id, attempt)| after.get(id) == Some(attempt)), "{before:?} → {after:?}");
}
