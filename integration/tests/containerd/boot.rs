//! A host that boots: nothing runs, or the runtime has no state, and hostlet starts before containerd.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use hostlet_integration::real::{AfterReboot, RealHost};
use hostlet_integration::{Look, wait_for};
use hostlet_proto::cri::PodSandboxState;
use serde_json::Value;
use tokio::time::Instant;

use crate::support::{IDLE, SOON, is_ready, manifest, wait_until_no_strays, wait_until_ready};

/// Name, priority class and priority, in the order in which the pods must start, which is the reverse of the order by name.
const PODS: [(&str, &str, i64); 8] = [
    ("z-proxy", "system-node-critical", 2_000_001_000),
    ("y-agent", "system-node-critical", 2_000_001_000),
    ("x-dns", "system-cluster-critical", 2_000_000_000),
    ("d-high", "", 1_000_000),
    ("c-middle", "", 1_000),
    ("c-low", "", 1),
    ("b-none", "", 0),
    ("a-last", "", -10),
];

fn boot_manifest((name, class, priority): (&str, &str, i64)) -> String {
    let mut pod: Value = serde_json::from_str(&manifest(name, &[("idle", IDLE)])).unwrap();
    pod["spec"]["priority"] = priority.into();
    if !class.is_empty() {
        pod["spec"]["priorityClassName"] = class.into();
    }
    pod.to_string()
}

#[tokio::test]
async fn pods_start_by_priority_if_the_runtime_has_no_state() {
    boot(AfterReboot::NothingKnown).await;
}

#[tokio::test]
async fn pods_start_by_priority_if_the_runtime_has_their_dead_sandboxes() {
    boot(AfterReboot::DeadKnown).await;
}

async fn boot(after: AfterReboot) {
    // One start at a time, so that the order can be seen.
    const ONE_BY_ONE: &str = "maxConcurrentStarts: 1";
    let mut host = RealHost::start().await.unwrap();
    for pod in PODS {
        host.write_manifest(&format!("{}.json", pod.0), &boot_manifest(pod)).unwrap();
    }
    let daemon = host.start_hostlet_with("", ONE_BY_ONE).await.unwrap();
    for (name, ..) in PODS {
        wait_until_ready(&daemon, name).await.unwrap();
    }
    daemon.kill().unwrap();
    host.power_off(after).await.unwrap();
    assert_eq!(host.container_processes().unwrap(), []);

    let daemon = host.start_hostlet_with("", ONE_BY_ONE).await.unwrap();
    host.launch_containerd().unwrap();
    host.wait_for_containerd().await.unwrap();
    let (ready, ready_at) = (Instant::now(), SystemTime::now());
    let all_run = wait_for("all pods run", SOON, async || {
        let pods = daemon.pods()?;
        let running = pods.iter().filter(|pod| is_ready(pod)).count();
        let seen = format!("{running} of {} pods", pods.len());
        Ok(if running == PODS.len() { Look::Done(()) } else { Look::NotYet(seen) })
    });
    all_run.await.unwrap();
    let all_after = ready.elapsed();

    let sandboxes = host.cri().sandboxes().await.unwrap();
    let mut live: Vec<_> =
        sandboxes.iter().filter(|s| s.state == PodSandboxState::SandboxReady as i32).collect();
    live.sort_by_key(|sandbox| sandbox.created_at);
    let first = UNIX_EPOCH + Duration::from_nanos(live[0].created_at.try_into().unwrap());
    println!(
        "{after:?}: {:?} from an answer of containerd to the first sandbox, {all_after:?} to {} running pods",
        first.duration_since(ready_at).unwrap_or_default(),
        PODS.len()
    );
    let order: Vec<String> =
        live.iter().map(|s| s.metadata.clone().unwrap_or_default().name.replace("-node1", "")).collect();
    let mut wanted: Vec<&str> = PODS.iter().map(|(name, ..)| *name).collect();
    // Pods of one priority that are seen at the same time come in any order.
    if order[0] == wanted[1] {
        wanted.swap(0, 1);
    }
    assert_eq!(order, wanted);
    let uids = daemon.pods().unwrap().iter().map(crate::support::uid).collect();
    wait_until_no_strays(&host, &uids).await.unwrap();
}
