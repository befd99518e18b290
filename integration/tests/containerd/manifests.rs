//! Changed or removed manifests: the old pod is stopped gracefully first and leaves nothing behind.

use std::fs::File;
use std::io::Read;

use hostlet_integration::real::RealHost;
use hostlet_integration::{Look, wait_for};
use hostlet_proto::cri::PodSandboxState;
use serde_json::{Value, json};

use crate::support::{
    IDLE, SOON, is_ready, manifest, pod, uid, wait_for_log, wait_for_pod, wait_until_empty, wait_until_ready,
};

/// Takes a second to terminate, and logs it. The first process of a container ignores SIGTERM until it has set its trap.
const SLOW_END: &str =
    "trap 'echo terminating; sleep 1; echo ended; exit 0' TERM; echo up; sleep 100000 & wait";

/// A pod whose container `slow` may terminate by itself, however slow the host is.
fn slow() -> String {
    let mut pod: Value = serde_json::from_str(&manifest("app", &[("slow", SLOW_END)])).unwrap();
    pod["spec"]["terminationGracePeriodSeconds"] = json!(60);
    pod.to_string()
}

#[tokio::test]
async fn an_edit_replaces_the_pod_after_the_old_one_terminated() {
    let host = RealHost::start().await.unwrap();
    let daemon = host.start_hostlet("").await.unwrap();
    host.write_manifest("app.json", &slow()).unwrap();
    let old = wait_until_ready(&daemon, "app").await.unwrap();
    wait_for_log(&host, &old, "slow", " up\n").await.unwrap();

    host.write_manifest("app.json", &manifest("app", &[("new", IDLE)])).unwrap();
    let new = wait_for("the edited pod", SOON, async || {
        // The runtime never has two pods of this name.
        let sandboxes = host.cri().sandboxes().await?;
        let ready: Vec<_> =
            sandboxes.iter().filter(|s| s.state == PodSandboxState::SandboxReady as i32).collect();
        assert!(ready.len() <= 1, "{ready:?}");
        Ok(match pod(&daemon, "app")? {
            Some(pod) if uid(&pod) != uid(&old) && is_ready(&pod) => Look::Done(pod),
            other => Look::NotYet(serde_json::to_string(&other)?),
        })
    });
    let new = new.await.unwrap();
    assert_eq!(new.spec.unwrap().containers[0].name, "new");
}

#[tokio::test]
async fn a_removed_manifest_stops_its_pod_gracefully() {
    let host = RealHost::start().await.unwrap();
    let daemon = host.start_hostlet("").await.unwrap();
    host.write_manifest("app.json", &slow()).unwrap();
    let pod = wait_until_ready(&daemon, "app").await.unwrap();
    wait_for_log(&host, &pod, "slow", " up\n").await.unwrap();
    let directory = host.logs().join(format!("default_app-node1_{}", uid(&pod)));
    // Held open, so that it can be read after it was removed with the pod.
    let mut log = File::open(directory.join("slow/0.log")).unwrap();

    host.remove_manifest("app.json").unwrap();
    wait_until_empty(&host).await.unwrap();
    let mut text = String::new();
    log.read_to_string(&mut text).unwrap();
    assert!(
        text.contains(" terminating\n") && text.contains(" ended\n"),
        "the container could not terminate by itself: {text}"
    );

    let gone = wait_for("no pod and no log directory", SOON, async || {
        let pods = daemon.pods()?;
        let left = format!("{} pods, log directory: {}", pods.len(), directory.exists());
        Ok(if pods.is_empty() && !directory.exists() { Look::Done(()) } else { Look::NotYet(left) })
    });
    gone.await.unwrap();
}

#[tokio::test]
async fn a_container_that_ignores_sigterm_is_killed() {
    let host = RealHost::start().await.unwrap();
    let daemon = host.start_hostlet("").await.unwrap();
    let stubborn = "trap '' TERM; while true; do sleep 1; done";
    host.write_manifest("app.json", &manifest("app", &[("stubborn", stubborn)])).unwrap();
    wait_until_ready(&daemon, "app").await.unwrap();
    host.remove_manifest("app.json").unwrap();
    wait_until_empty(&host).await.unwrap();
}

#[tokio::test]
async fn a_manifest_added_again_runs_again() {
    let host = RealHost::start().await.unwrap();
    let daemon = host.start_hostlet("").await.unwrap();
    let text = slow();
    host.write_manifest("app.json", &text).unwrap();
    let first = wait_until_ready(&daemon, "app").await.unwrap();
    wait_for_log(&host, &first, "slow", " up\n").await.unwrap();
    let first_sandbox = host.cri().sandboxes().await.unwrap().remove(0).id;

    // The same file, so the same UID, is back while the pod still terminates.
    host.remove_manifest("app.json").unwrap();
    wait_for_log(&host, &first, "slow", " terminating\n").await.unwrap();
    host.write_manifest("app.json", &text).unwrap();
    let again = wait_for("a new sandbox", SOON, async || {
        let sandboxes = host.cri().sandboxes().await?;
        let ready = |s: &&hostlet_proto::cri::PodSandbox| s.state == PodSandboxState::SandboxReady as i32;
        let fresh = sandboxes.iter().filter(ready).any(|s| s.id != first_sandbox);
        Ok(if fresh { Look::Done(()) } else { Look::NotYet(format!("{sandboxes:?}")) })
    });
    again.await.unwrap();
    let second = wait_for_pod(&daemon, "app", SOON, is_ready).await.unwrap();
    assert_eq!(uid(&second), uid(&first));
}
