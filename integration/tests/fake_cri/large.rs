//! Pods with annotations so large that a list of all pods exceeds the message size limit: nothing is lost or duplicated.

use anyhow::Result;
use hostlet_integration::fake_cri::FakeHost;
use hostlet_integration::{Daemon, Look, wait_for};
use hostlet_runtime::cri::Operation;
use serde_json::{Value, json};

use crate::support::{LATER, SOON, manifest, running, uid, wait_until_gone};

/// The number of pods, and the bytes of each pod's annotations.
struct Crowd {
    pods: usize,
    annotations: usize,
}

fn large(name: &str, annotations: usize) -> Result<String> {
    let mut pod: Value = serde_json::from_str(&manifest(name, &["main"]))?;
    pod["metadata"]["annotations"] = json!({"example.com/notes": "x".repeat(annotations)});
    Ok(pod.to_string())
}

fn name(number: usize) -> String {
    format!("large{number}")
}

async fn wait_until_running(host: &FakeHost, wanted: usize) -> Result<()> {
    wait_for(&format!("{wanted} running containers"), LATER, async || {
        let now = running(host).len();
        Ok(if now == wanted { Look::Done(()) } else { Look::NotYet(format!("{now} run")) })
    })
    .await
}

/// Waits until the daemon that started last has listed everything, and a little longer.
async fn wait_for_looks(host: &FakeHost, pods: usize) -> Result<()> {
    let looks = || host.runtime().calls_of(Operation::ListContainers).len();
    let before = looks();
    wait_for("several looks at every pod", SOON, async || {
        let now = looks() - before;
        Ok(if now > 3 * pods { Look::Done(()) } else { Look::NotYet(format!("{now} lists")) })
    })
    .await
}

/// Waits until the daemons of this host have logged this often that lists are too large. Each logs it once.
async fn wait_until_logged(daemon: &Daemon, times: usize) -> Result<()> {
    wait_for("lists are logged as too large", SOON, async || {
        let logged = daemon.log().matches("asking pod by pod").count();
        anyhow::ensure!(logged <= times, "logged {logged} times: {}", daemon.log());
        Ok(if logged == times { Look::Done(()) } else { Look::NotYet(daemon.log()) })
    })
    .await
}

async fn pods_with_large_annotations_live_and_die(host: FakeHost, crowd: Crowd) -> Result<()> {
    let Crowd { pods, annotations } = crowd;
    let daemon = host.start_hostlet("").await?;
    for number in 0..pods {
        host.write_manifest(&format!("{}.json", name(number)), &large(&name(number), annotations)?)?;
    }
    wait_until_running(&host, pods).await?;
    wait_until_logged(&daemon, 1).await?;
    let started = running(&host);
    daemon.kill()?;

    // A daemon without state finds them all, starts none again, and removes those without a manifest.
    host.remove_manifest(&format!("{}.json", name(7)))?;
    let daemon = host.start_hostlet("").await?;
    wait_until_gone(&host, &name(7)).await?;
    wait_for_looks(&host, pods).await?;
    let mut expected = started;
    let gone = uid(&name(7));
    expected.retain(|id, _| host.runtime().container_config(&id.as_str().into()).is_some());
    assert_eq!(running(&host), expected);
    assert_eq!(expected.len(), pods - 1);
    assert!(
        host.runtime().wire_sandboxes().iter().all(|s| s.metadata.as_ref().is_some_and(|m| m.uid != gone))
    );
    wait_until_logged(&daemon, 2).await?;
    assert!(!daemon.log().contains("cannot list pods"), "{}", daemon.log());
    Ok(())
}

#[tokio::test]
async fn a_runtime_that_cannot_send_large_lists_is_queried_pod_by_pod() {
    let host = FakeHost::start().unwrap();
    host.runtime().set_message_limit(100_000);
    let crowd = Crowd { pods: 20, annotations: 10_000 };
    pods_with_large_annotations_live_and_die(host, crowd).await.unwrap();
}

#[tokio::test]
async fn lists_over_the_limit_are_replaced_by_queries_per_pod() {
    let host = FakeHost::start().unwrap();
    // More than 16 MiB, of annotations as large as a pod may have.
    let crowd = Crowd { pods: 67, annotations: 255_000 };
    pods_with_large_annotations_live_and_die(host, crowd).await.unwrap();
}
