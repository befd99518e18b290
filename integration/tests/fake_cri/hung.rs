//! A runtime that hangs on one pod: other pods are not affected, and the hung call is shown.

use anyhow::Result;
use hostlet_integration::fake_cri::FakeHost;
use hostlet_integration::{Daemon, Look, wait_for};
use hostlet_runtime::cri::Operation;
use hostlet_runtime::cri::fake::{Fault, FaultPlan, Rule};
use k8s_openapi::api::core::v1::Pod;

use crate::support::{
    SOON, is_ready, manifest, only_container, running, sandboxes_of, statuses, uid, wait_for_complaint,
    wait_for_status, wait_until_gone, wait_until_ready, write_pods,
};

fn hang(faults: &FaultPlan, operation: Operation, pod: &str) {
    faults.add(Rule::new(operation, Fault::Hang).pod(&uid(pod).as_str().into()));
}

/// Waits until a call of this kind has arrived at the runtime and hangs.
async fn wait_until_hung(host: &FakeHost, operation: Operation) -> Result<()> {
    wait_for(&format!("a hung {operation}"), SOON, async || {
        let calls = host.runtime().calls_of(operation);
        let is_hung = calls.iter().any(|call| call.ended_at.is_none());
        Ok(if is_hung { Look::Done(()) } else { Look::NotYet(format!("{calls:?}")) })
    })
    .await
}

/// Pods of these names start and stop.
async fn others_come_and_go(host: &FakeHost, daemon: &Daemon, names: &[&str]) -> Result<()> {
    write_pods(host, names)?;
    wait_until_ready(daemon, names).await?;
    for name in names {
        host.remove_manifest(&format!("{name}.json"))?;
        wait_until_gone(host, name).await?;
    }
    Ok(())
}

/// Waits until `hostlet pods` reports that the call hangs on the pod.
async fn wait_until_named(daemon: &Daemon, host: &FakeHost, call: &str, pod: &str) -> Result<()> {
    let pod = format!("of pod default/{pod}-{} ", host.node());
    let is_reported = |text: &str| {
        text.lines().any(|line| line.contains("runtime hangs") && line.contains(call) && line.contains(&pod))
    };
    wait_for_complaint(daemon, &format!("{call} is named"), is_reported).await?;
    Ok(())
}

#[tokio::test]
async fn three_hung_starts_do_not_block_a_fourth_pod() {
    let host = FakeHost::start().unwrap();
    let daemon = host.start_hostlet("").await.unwrap();
    let hung = ["hung1", "hung2", "hung3"];
    // As many as may start at once.
    for pod in hung {
        hang(host.runtime().faults(), Operation::RunSandbox, pod);
    }
    write_pods(&host, &hung).unwrap();
    wait_until_hung(&host, Operation::RunSandbox).await.unwrap();
    others_come_and_go(&host, &daemon, &["one", "two"]).await.unwrap();
    for pod in hung {
        wait_for_status(&daemon, pod, &["ContainerCreating"]).await.unwrap();
        wait_until_named(&daemon, &host, "run_podsandbox", pod).await.unwrap();
    }

    // A pod whose start hangs can be removed.
    host.remove_manifest("hung1.json").unwrap();
    let gone = wait_for("hung1 is not shown", SOON, async || {
        Ok(daemon.pod("hung1")?.map_or(Look::Done(()), |pod| Look::NotYet(format!("{:?}", pod.status))))
    });
    gone.await.unwrap();
    host.runtime().faults().clear();
    host.runtime().faults().release();
    wait_until_ready(&daemon, &["hung2", "hung3"]).await.unwrap();
    wait_until_gone(&host, "hung1").await.unwrap();
    assert_eq!(sandboxes_of(&host, "hung2"), [0]);
    wait_for_complaint(&daemon, "no complaint", str::is_empty).await.unwrap();
}

#[tokio::test]
async fn a_hung_stop_blocks_only_its_pod() {
    let host = FakeHost::start().unwrap();
    let daemon = host.start_hostlet("").await.unwrap();
    write_pods(&host, &["stuck", "stays"]).unwrap();
    wait_until_ready(&daemon, &["stuck", "stays"]).await.unwrap();
    hang(host.runtime().faults(), Operation::StopContainer, "stuck");
    host.remove_manifest("stuck.json").unwrap();
    wait_until_hung(&host, Operation::StopContainer).await.unwrap();
    others_come_and_go(&host, &daemon, &["one", "two"]).await.unwrap();
    wait_for_status(&daemon, "stuck", &["Terminating"]).await.unwrap();
    wait_until_named(&daemon, &host, "stop_container", "stuck").await.unwrap();
    assert!(daemon.wait_for_pod("stays", SOON, is_ready).await.is_ok());

    host.runtime().faults().clear();
    host.runtime().faults().release();
    wait_until_gone(&host, "stuck").await.unwrap();
    wait_for_complaint(&daemon, "no complaint", str::is_empty).await.unwrap();
    assert_eq!(running(&host).len(), 1);
}

#[tokio::test]
async fn a_hung_inspection_blocks_only_its_pod() {
    let host = FakeHost::start().unwrap();
    let daemon = host.start_hostlet("").await.unwrap();
    host.write_manifest("sick.json", &manifest("sick", &["main"])).unwrap();
    wait_until_ready(&daemon, &["sick"]).await.unwrap();
    hang(host.runtime().faults(), Operation::ContainerStatus, "sick");
    // Something to inspect.
    let first = only_container(&host, "sick").unwrap();
    host.runtime().exit_container(&first.as_str().into(), 1);
    wait_until_hung(&host, Operation::ContainerStatus).await.unwrap();
    others_come_and_go(&host, &daemon, &["one", "two"]).await.unwrap();
    wait_until_named(&daemon, &host, "container_status", "sick").await.unwrap();
    assert!(running(&host).is_empty(), "nothing is started of a pod whose state is not known");

    host.runtime().faults().clear();
    host.runtime().faults().release();
    // Until then it was shown as ready.
    let restarted = |pod: &Pod| is_ready(pod) && statuses(pod)[0].restart_count == 1;
    daemon.wait_for_pod("sick", SOON, restarted).await.unwrap();
    assert_eq!(running(&host).values().collect::<Vec<_>>(), [&1]);
    wait_for_complaint(&daemon, "no complaint", str::is_empty).await.unwrap();
}
