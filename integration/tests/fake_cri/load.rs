//! Many pods in parallel.

use std::fs;
use std::time::Duration;

use anyhow::Result;
use hostlet_integration::fake_cri::FakeHost;
use hostlet_integration::{Daemon, Look, wait_for};
use hostlet_runtime::cri::Operation;

use crate::support::{is_ready, manifest, running, uid, wait_for_status};

const PODS: usize = 200;
/// Far more than the stock kubelet's default of 110.
const MANY_PODS: usize = 1000;
const TIMEOUT: Duration = Duration::from_secs(300);

fn open_files(daemon: &Daemon) -> Result<usize> {
    Ok(fs::read_dir(format!("/proc/{}/fd", daemon.pid()))?.count())
}

/// The daemon's current memory according to the kernel.
fn resident(daemon: &Daemon) -> Result<String> {
    let status = fs::read_to_string(format!("/proc/{}/status", daemon.pid()))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    Ok(line.unwrap_or_default().trim().to_owned())
}

async fn wait_for_ready_pods(daemon: &Daemon, wanted: usize) -> Result<()> {
    wait_for(&format!("{wanted} ready pods"), TIMEOUT, async || {
        let pods = daemon.pods()?;
        let ready = pods.iter().filter(|pod| is_ready(pod)).count();
        let state = || format!("{ready} ready of {}", pods.len());
        Ok(if ready == wanted && pods.len() == wanted { Look::Done(()) } else { Look::NotYet(state()) })
    })
    .await
}

#[allow(clippy::print_stderr, reason = "a measurement for people, which no machine is held to")]
#[tokio::test]
async fn two_hundred_pods_run_without_leaking_files() {
    let host = FakeHost::start().unwrap();
    let daemon = host.start_hostlet("maxPods: 250").await.unwrap();
    let write = |number: usize| {
        let name = format!("pod{number}");
        host.write_manifest(&format!("{name}.json"), &manifest(&name, &["main"])).unwrap();
    };
    (0..PODS).for_each(write);
    wait_for_ready_pods(&daemon, PODS).await.unwrap();
    assert_eq!(running(&host).len(), PODS);
    assert_eq!(host.runtime().calls_of(Operation::CreateContainer).len(), PODS);
    let files = open_files(&daemon).unwrap();
    eprintln!("{PODS} pods: {} resident, {files} open files", resident(&daemon).unwrap());

    for number in 0..PODS / 4 {
        host.remove_manifest(&format!("pod{number}.json")).unwrap();
    }
    wait_for_ready_pods(&daemon, PODS - PODS / 4).await.unwrap();
    (0..PODS / 4).for_each(write);
    wait_for_ready_pods(&daemon, PODS).await.unwrap();
    assert_eq!(running(&host).len(), PODS);
    // A connection of `hostlet pods` may not be closed yet.
    let settled = wait_for("no more open files than before", TIMEOUT, async || {
        let now = open_files(&daemon)?;
        Ok(if now <= files { Look::Done(()) } else { Look::NotYet(format!("{files} → {now}")) })
    });
    settled.await.unwrap();
    eprintln!("after a quarter of them was replaced: {} resident", resident(&daemon).unwrap());
}

/// With a hollow runtime a node has room for a thousand pods, and not for one more; all of them end.
#[tokio::test]
async fn a_thousand_pods_run_on_one_node() {
    let host = FakeHost::start().unwrap();
    let daemon = host.start_hostlet(&format!("maxPods: {MANY_PODS}")).await.unwrap();
    let file = |number: usize| format!("pod{number}.json");
    for number in 0..MANY_PODS {
        host.write_manifest(&file(number), &manifest(&format!("pod{number}"), &["main"])).unwrap();
    }
    wait_until_running(&host, MANY_PODS).await.unwrap();
    wait_for_ready_pods(&daemon, MANY_PODS).await.unwrap();
    host.write_manifest("more.json", &manifest("more", &["main"])).unwrap();
    wait_for_status(&daemon, "more", &["OutOfpods"]).await.unwrap();
    assert!(
        !host
            .runtime()
            .wire_sandboxes()
            .iter()
            .any(|sandbox| sandbox.labels.values().any(|v| *v == uid("more")))
    );

    host.remove_manifest("more.json").unwrap();
    for number in 0..MANY_PODS {
        host.remove_manifest(&file(number)).unwrap();
    }
    wait_until_running(&host, 0).await.unwrap();
    wait_for_ready_pods(&daemon, 0).await.unwrap();
}

async fn wait_until_running(host: &FakeHost, expected: usize) -> Result<()> {
    wait_for(&format!("{expected} running containers"), TIMEOUT, async || {
        let now = running(host).len();
        Ok(if now == expected { Look::Done(()) } else { Look::NotYet(format!("{now} run")) })
    })
    .await
}
