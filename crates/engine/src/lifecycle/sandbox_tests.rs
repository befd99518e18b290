//! Dying sandboxes, renamed pods, and pods that cannot be inspected, on an in-memory node.

use std::time::Duration;

use hostlet_runtime::cri::fake::{Fault, Rule};
use hostlet_runtime::cri::wire::PodSandboxState;
use hostlet_runtime::cri::{Operation, RuntimeStatus};
use tokio::time::sleep;

use super::testing::{Node, pod};

const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);

#[tokio::test(start_paused = true)]
async fn a_sandbox_that_dies_repeatedly_is_recreated_with_back_off() {
    let mut node = Node::new();
    node.want([pod("web", "u1", &["c"])]);
    node.until("it runs", 5 * SECOND, |n| n.running("u1").len() == 1).await;
    // The first dead one is replaced at once.
    let dies = |node: &Node| {
        for sandbox in node.runtime.wire_sandboxes() {
            node.runtime.kill_sandbox(&sandbox.id.as_str().into());
        }
    };
    let made = |node: &Node| node.calls_of("u1", Operation::RunSandbox).len();
    dies(&node);
    node.until("it is replaced", 2 * SECOND, |n| made(n) == 2).await;
    // From here on they die before a container is created, so no container's back-off applies.
    let slow = Fault::Delay(Duration::from_millis(300));
    node.runtime.faults().add(Rule::new(Operation::CreateContainer, slow));
    for _ in 0..6000 {
        dies(&node);
        sleep(Duration::from_millis(100)).await;
    }
    let in_ten_minutes = made(&node) - 2;
    assert!((6..=20).contains(&in_ten_minutes), "{in_ten_minutes}");
    assert!(node.events_of("u1", "BackOff") > 0);
    let waits = |n: &Node| {
        let statuses =
            n.status("u1").and_then(|status| status.container_statuses.clone()).unwrap_or_default();
        let messages = statuses.into_iter().filter_map(|s| s.state?.waiting?.message);
        messages.into_iter().any(|message| message.contains("re-creating the pod sandbox"))
    };
    node.until("the status says why it waits", 2 * MINUTE, |n| {
        dies(n);
        waits(n)
    })
    .await;

    node.runtime.faults().clear();
    node.until("it runs once sandboxes last", 2 * MINUTE, |n| n.running("u1").len() == 1).await;
    sleep(6 * MINUTE).await;
    let before = made(&node);
    dies(&node);
    node.until("a lasting one is replaced at once", 2 * SECOND, |n| made(n) == before + 1).await;
}

#[tokio::test(start_paused = true)]
async fn an_attempt_that_creates_no_sandbox_holds_back_no_other() {
    // As after a reboot: the sandbox is dead, and something that the next one needs comes back later.
    enum Missing {
        Network,
        Call(Operation),
    }
    for missing in
        [Missing::Network, Missing::Call(Operation::StopSandbox), Missing::Call(Operation::RunSandbox)]
    {
        let mut node = Node::new();
        node.want([pod("web", "u1", &["c"])]);
        node.until("it runs", 5 * SECOND, |n| n.running("u1").len() == 1).await;
        match missing {
            Missing::Network => drop(node.status.send_replace(Some(RuntimeStatus::default()))),
            Missing::Call(operation) => {
                node.runtime
                    .faults()
                    .add(Rule::new(operation, Fault::fail("the network plugin is not there")));
            }
        }
        for sandbox in node.runtime.wire_sandboxes() {
            node.runtime.kill_sandbox(&sandbox.id.as_str().into());
        }
        sleep(2 * MINUTE).await;
        assert!(node.running("u1").is_empty());
        assert_eq!(node.events_of("u1", "BackOff"), 0);
        node.set_runtime_ready();
        node.runtime.faults().clear();
        // The ordinary pause of a failed step.
        let pause = if matches!(missing, Missing::Network) { 3 * SECOND } else { 17 * SECOND };
        node.until("it runs again", pause, |n| n.running("u1").len() == 1).await;
    }
}

#[tokio::test(start_paused = true)]
async fn an_absurd_memory_limit_is_named_where_the_start_fails() {
    let mut node = Node::new();
    let killed = "OCI runtime create failed: runc create failed: signal: killed";
    node.runtime.faults().add(Rule::new(Operation::RunSandbox, Fault::fail(killed)));
    let tiny = pod("web", "u1", &["c"]).edited(|pod| {
        let limits = serde_json::json!({"limits": {"memory": "100m"}});
        pod.spec.as_mut().unwrap().containers[0].resources = serde_json::from_value(limits).unwrap();
    });
    node.want([tiny]);
    let says = |n: &Node| {
        let conditions = n.status("u1").and_then(|status| status.conditions.clone()).unwrap_or_default();
        conditions
            .into_iter()
            .filter_map(|it| it.message)
            .any(|it| it.contains("limits.memory: 100m of container c"))
    };
    node.until("its status names it", 5 * SECOND, says).await;
    assert!(node.events_of("u1", "FailedCreatePodSandBox") > 0);
}

#[tokio::test(start_paused = true)]
async fn a_renamed_manifest_with_a_fixed_uid_is_another_pod() {
    for is_down_meanwhile in [false, true] {
        let mut node = Node::new();
        node.want([pod("web", "u1", &["c"])]);
        node.until("it runs", 5 * SECOND, |n| n.running("u1").len() == 1).await;
        let names = |n: &Node| {
            let ready = PodSandboxState::SandboxReady as i32;
            let sandboxes = n.runtime.wire_sandboxes().into_iter().filter(|sandbox| sandbox.state == ready);
            sandboxes.filter_map(|sandbox| sandbox.metadata).map(|metadata| metadata.name).collect::<Vec<_>>()
        };
        assert_eq!(names(&node), ["web"]);
        if is_down_meanwhile {
            node.sync_store();
            node.stop().await;
        }
        node.want([pod("db", "u1", &["c"])]);
        if is_down_meanwhile {
            node.boot();
        }
        node.until("it runs under its new name", 3 * MINUTE, |n| {
            n.running("u1").len() == 1 && names(n) == ["db"]
        })
        .await;
        let made = node.calls_of("u1", Operation::RunSandbox).len();
        assert_eq!(made, 2);
        sleep(10 * MINUTE).await;
        assert_eq!(node.calls_of("u1", Operation::RunSandbox).len(), made, "and that is that");
    }
}

#[tokio::test(start_paused = true)]
async fn an_orphan_that_cannot_be_inspected_is_removed_by_its_listed_ids() {
    let mut node = Node::new();
    node.want([pod("web", "u1", &["c"]), pod("db", "u2", &["c"])]);
    node.until("they run", 5 * SECOND, |n| ["u1", "u2"].iter().all(|uid| n.running(uid).len() == 1)).await;
    node.stop().await;
    node.runtime.faults().add(Rule::new(Operation::ContainerStatus, Fault::fail("boom")).pod(&"u1".into()));
    node.runtime.faults().add(Rule::new(Operation::ContainerStatus, Fault::fail("boom")).pod(&"u2".into()));
    node.want([pod("db", "u2", &["c"])]);
    node.boot();
    sleep(30 * SECOND).await;
    assert_eq!(node.running("u1").len(), 1, "it may yet be inspected");
    node.until("nothing of it is left", 3 * MINUTE, |n| !n.has("u1")).await;
    node.until("nor on the disk", 2 * MINUTE, |n| n.directories().iter().all(|name| !name.contains("u1")))
        .await;
    assert_eq!(node.running("u2").len(), 1, "one that is wanted is left alone");
    assert!(node.metrics.encode().contains("\nkubelet_orphaned_runtime_pods_total 1\n"));
}
