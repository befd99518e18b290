//! Containers that exit: restarts, attempts and the crash-loop back-off.

use std::collections::BTreeMap;

use anyhow::Result;
use hostlet_integration::real::RealHost;
use hostlet_integration::{Look, wait_for};

use crate::support::{
    IDLE, LATER, SOON, manifest, running_containers, statuses, wait_for_pod, wait_until_ready,
};

/// The container ID of each observed attempt.
type Attempts = BTreeMap<u32, String>;

#[tokio::test]
async fn a_crash_loop_counts_its_attempts_across_a_restart_of_the_daemon() {
    let host = RealHost::start().await.unwrap();
    let daemon = host.start_hostlet("").await.unwrap();
    host.write_manifest("crash.json", &manifest("crash", &[("crash", "exit 3")])).unwrap();
    let pod = wait_for_pod(&daemon, "crash", LATER, |pod| {
        let waiting = |status: &k8s_openapi::api::core::v1::ContainerStatus| {
            let waiting = status.state.as_ref().and_then(|state| state.waiting.as_ref());
            waiting.and_then(|waiting| waiting.reason.as_deref()) == Some("CrashLoopBackOff")
        };
        statuses(pod).iter().any(|status| status.restart_count >= 1 && waiting(status))
    });
    let pod = pod.await.unwrap();
    let last = statuses(&pod)[0].last_state.as_ref().and_then(|state| state.terminated.as_ref());
    assert_eq!(last.unwrap().exit_code, 3);

    let seen = wait_for_attempt(&host, Attempts::new(), 1).await.unwrap();
    daemon.kill().unwrap();
    let daemon = host.start_hostlet("").await.unwrap();
    let next = newest(&seen) + 1;
    wait_for_attempt(&host, seen, next).await.unwrap();
    drop(daemon);
}

/// The highest observed attempt.
fn newest(seen: &Attempts) -> u32 {
    seen.last_key_value().map_or(0, |(attempt, _)| *attempt)
}

/// Waits until the runtime has attempt `wanted` or a later one. Two containers of one attempt fail the test.
async fn wait_for_attempt(host: &RealHost, mut seen: Attempts, wanted: u32) -> Result<Attempts> {
    wait_for(&format!("attempt {wanted}"), LATER, async || {
        for container in host.cri().containers().await? {
            let attempt = container.metadata.map_or(0, |metadata| metadata.attempt);
            let first = seen.entry(attempt).or_insert_with(|| container.id.clone());
            assert_eq!(first, &container.id, "two containers of attempt {attempt}");
        }
        Ok(if newest(&seen) >= wanted { Look::Done(()) } else { Look::NotYet(format!("{seen:?}")) })
    })
    .await?;
    Ok(seen)
}

#[tokio::test]
async fn a_killed_container_is_restarted_and_its_neighbor_left_alone() {
    let host = RealHost::start().await.unwrap();
    let daemon = host.start_hostlet("").await.unwrap();
    host.write_manifest("pair.json", &manifest("pair", &[("victim", IDLE), ("neighbour", IDLE)])).unwrap();
    wait_until_ready(&daemon, "pair").await.unwrap();
    let containers = host.cri().containers().await.unwrap();
    let id_of = |name: &str| {
        let mut named = containers.iter().filter(|c| c.labels["io.kubernetes.container.name"] == name);
        named.next().unwrap().id.clone()
    };
    let (victim, neighbour) = (id_of("victim"), id_of("neighbour"));

    host.cri().kill_container(&victim).await.unwrap();
    let successor = wait_for("the successor", SOON, async || {
        let running = running_containers(&host).await?;
        let new = running.iter().find(|(id, _)| **id != victim && **id != neighbour);
        Ok(new.map_or_else(|| Look::NotYet(format!("{running:?}")), |(_, attempt)| Look::Done(*attempt)))
    });
    assert_eq!(successor.await.unwrap(), 1);
    assert!(running_containers(&host).await.unwrap().contains_key(&neighbour));
    let restarted = wait_for_pod(&daemon, "pair", SOON, |pod| {
        let victim = statuses(pod).iter().find(|status| status.name == "victim");
        victim.is_some_and(|status| status.ready && status.restart_count == 1)
    });
    restarted.await.unwrap();
}
