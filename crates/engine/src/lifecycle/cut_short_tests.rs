//! Interrupted starts on an in-memory node: cancelled because the daemon was killed, or lost because the runtime was killed before
//! it responded.

use std::time::Duration;

use hostlet_runtime::cri::Operation;
use hostlet_runtime::cri::fake::{Fault, Restart, Rule, Run, Script};

use super::testing::{Node, pod_with};

const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);

/// containerd's record of a start that was cancelled before the process ran.
const TAKEN_BACK: &str = "failed to create containerd task: failed to create shim task: context canceled";

/// A restart of the runtime.
const KILLED: Restart = Restart { down: SECOND, recovering: SECOND, takes_pods_along: false };

/// A node whose daemon is killed during the first start, without a response from the runtime.
async fn ended_in_a_start(policy: &str) -> Node {
    let mut node = Node::new();
    node.runtime.script("c", Script::runs([Run::Exits { after: SECOND, code: 0 }]));
    node.runtime.faults().add(Rule::new(Operation::StartContainer, Fault::Hang).times(1));
    node.want([pod_with("job", "u1", policy, &["c"])]);
    node.until("its start is requested", MINUTE, |n| !n.calls_of("u1", Operation::StartContainer).is_empty())
        .await;
    node.sync_store();
    node.stop().await;
    node
}

fn restarts(node: &Node) -> Option<i32> {
    Some(node.status("u1")?.container_statuses.as_ref()?.first()?.restart_count)
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_start_is_repeated_without_counting_as_restart() {
    for policy in ["Never", "OnFailure", "Always"] {
        let mut node = Node::new();
        let runs = [Run::StartError(TAKEN_BACK.to_owned()), Run::Exits { after: MINUTE, code: 0 }];
        node.runtime.script("c", Script::runs(runs));
        node.want([pod_with("job", "u1", policy, &["c"])]);
        node.until("it runs", MINUTE, |n| n.running("u1") == [("c".to_owned(), 0)]).await;
        assert_eq!((node.containers().len(), restarts(&node)), (1, Some(0)), "{policy}");
        if policy != "Always" {
            let succeeded = |n: &Node| n.phase("u1").as_deref() == Some("Succeeded");
            node.until("it succeeds", 2 * MINUTE, succeeded).await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_start_interrupted_by_the_runtimes_kill_is_not_repeated_for_policy_never() {
    let mut node = ended_in_a_start("Never").await;
    node.runtime.restart(KILLED);
    for _ in 0..3 {
        node.boot();
        node.until("it has failed", MINUTE, |n| n.phase("u1").as_deref() == Some("Failed")).await;
        let status = node.status("u1").unwrap();
        let reported =
            status.container_statuses.as_ref().unwrap()[0].state.clone().unwrap().terminated.unwrap();
        assert_eq!((reported.exit_code, reported.reason.as_deref()), (137, Some("ContainerStatusUnknown")));
        let message = "The container could not be located when the pod was terminated";
        assert_eq!(reported.message.as_deref(), Some(message));
        assert_eq!(node.calls_of("u1", Operation::StartContainer).len(), 1);
        node.sync_store();
        node.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn an_on_failure_container_is_restarted_after_a_lost_start() {
    let mut node = ended_in_a_start("OnFailure").await;
    node.runtime.restart(KILLED);
    node.boot();
    node.until("it succeeds", MINUTE, |n| n.phase("u1").as_deref() == Some("Succeeded")).await;
    assert_eq!(restarts(&node), Some(1));
}

#[tokio::test(start_paused = true)]
async fn a_start_that_never_reached_the_runtime_is_made_by_the_next_daemon() {
    let mut node = ended_in_a_start("Never").await;
    node.boot();
    node.until("it succeeds", MINUTE, |n| n.phase("u1").as_deref() == Some("Succeeded")).await;
    assert_eq!(restarts(&node), Some(0));
}
