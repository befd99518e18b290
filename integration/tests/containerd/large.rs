//! Lists that containerd cannot send because they exceed the message size limit.

use anyhow::{Result, ensure};
use hostlet_integration::real::RealHost;
use hostlet_integration::{Daemon, Look, wait_for};
use serde_json::{Value, json};

use crate::support::{IDLE, SOON, manifest, running_containers, wait_until_ready};

/// The size limit of a message, and the size of a pod's annotations: one pod fits, five do not.
const LIMIT: usize = 100_000;
const ANNOTATIONS: usize = 40_000;
const PODS: [&str; 5] = ["one", "two", "three", "four", "five"];

#[tokio::test]
async fn pods_in_a_list_over_the_limit_are_found_and_adopted() {
    let mut host = RealHost::start().await.unwrap();
    host.restart_containerd_with_small_messages(LIMIT).await.unwrap();
    let daemon = host.start_hostlet("").await.unwrap();
    for name in PODS {
        let mut pod: Value = serde_json::from_str(&manifest(name, &[("idle", IDLE)])).unwrap();
        pod["metadata"]["annotations"] = json!({"example.com/notes": "x".repeat(ANNOTATIONS)});
        host.write_manifest(&format!("{name}.json"), &pod.to_string()).unwrap();
    }
    for name in PODS {
        wait_until_ready(&daemon, name).await.unwrap();
    }
    host.cri().sandboxes().await.expect_err("a list that is too large");
    // All pods may run before the daemon lists again, but the test needs a daemon that has received such lists.
    wait_until_logged(&daemon, 1).await.unwrap();
    let started = running_containers(&host).await.unwrap();
    daemon.kill().unwrap();

    // A restarted daemon finds a pod without a manifest only in containerd's own list of containers.
    host.remove_manifest("one.json").unwrap();
    let daemon = host.start_hostlet("").await.unwrap();
    for name in &PODS[1..] {
        wait_until_ready(&daemon, name).await.unwrap();
    }
    let left = wait_for("the end of one pod", SOON, async || {
        let running = running_containers(&host).await?;
        let is_gone = running.len() == PODS.len() - 1;
        Ok(if is_gone { Look::Done(running) } else { Look::NotYet(format!("{running:?}")) })
    });
    let left = left.await.unwrap();
    assert!(left.iter().all(|container| started.contains_key(container.0)), "{started:?} {left:?}");
    wait_until_logged(&daemon, 2).await.unwrap();
}

/// Waits until daemons, with a shared log, have logged `times` that lists are too large.
async fn wait_until_logged(daemon: &Daemon, times: usize) -> Result<()> {
    wait_for("a list that is too large is logged", SOON, async || {
        let logged = daemon.log().matches("asking pod by pod").count();
        ensure!(logged <= times, "logged {logged} times instead of {times}");
        Ok(if logged == times { Look::Done(()) } else { Look::NotYet(format!("logged {logged} times")) })
    })
    .await
}
