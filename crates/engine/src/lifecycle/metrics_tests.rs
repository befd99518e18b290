//! Metrics of starts and restarts on an in-memory node.

use std::time::Duration;

use hostlet_runtime::cri::Operation;
use hostlet_runtime::cri::fake::{Fault, Rule};
use tokio::time::sleep;

use super::testing::{Node, pod};

const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);

fn holds(node: &Node, lines: &[&str]) {
    let text = node.metrics.encode();
    for line in lines {
        assert!(text.contains(&format!("\n{line}\n")), "{line} in {text}");
    }
}

#[tokio::test(start_paused = true)]
async fn sandboxes_and_containers_that_start_or_fail_are_counted() {
    let mut node = Node::new();
    node.runtime.faults().add(Rule::new(Operation::RunSandbox, Fault::fail("no network")).times(1));
    node.runtime.faults().add(Rule::new(Operation::StartContainer, Fault::fail("no program")).times(1));
    node.want([pod("web", "u1", &["a", "b"])]);
    node.until("it runs", MINUTE, |n| n.running("u1").len() == 2).await;
    let failed =
        "kubelet_started_containers_errors_total{container_type=\"container\",code=\"RunContainerError\"} 1";
    holds(
        &node,
        &[
            "kubelet_started_pods_total 2",
            "kubelet_started_pods_errors_total 1",
            "kubelet_run_podsandbox_errors_total{runtime_handler=\"\"} 1",
            "kubelet_run_podsandbox_duration_seconds_count{runtime_handler=\"\"} 2",
            "kubelet_started_containers_total{container_type=\"container\"} 3",
            failed,
            "hostlet_pod_step_duration_seconds_count{step=\"create\"} 2",
        ],
    );
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_is_created_again_while_it_terminates_counts_as_restarted() {
    let mut node = Node::new();
    let web = || pod("web", "u1", &["c"]);
    node.want([web()]);
    node.until("it runs", SECOND, |n| n.running("u1").len() == 1).await;
    sleep(SECOND).await;
    let working = |config: &str, lifecycle: &str| {
        format!("kubelet_working_pods{{config=\"{config}\",lifecycle=\"{lifecycle}\",static=\"true\"}} 1")
    };
    holds(&node, &[&working("desired", "sync")]);
    let first = node.containers();
    node.runtime.faults().add(Rule::new(Operation::StopContainer, Fault::Delay(5 * SECOND)).times(1));
    node.want([]);
    let terminates = working("orphan", "terminating");
    node.until("it terminates", 4 * SECOND, |n| n.metrics.encode().contains(&terminates)).await;
    node.want([web()]);
    node.until("it runs again", 2 * MINUTE, |n| n.running("u1").len() == 1 && n.containers() != first).await;
    holds(
        &node,
        &[
            "kubelet_pod_worker_duration_seconds_count{operation_type=\"create\"} 2",
            "kubelet_containers_per_pod_count_count 2",
        ],
    );
    holds(
        &node,
        &["kubelet_restarted_pods_total{static=\"true\"} 1", "kubelet_orphaned_runtime_pods_total 0"],
    );
}
