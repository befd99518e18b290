//! A restarted agent and the statuses of its predecessor.

use hostlet_integration::cluster::Tenant;
use k8s_openapi::api::core::v1::Pod;

use crate::support::{IDLE, SOON, container_id, is_ready, phase, pod, run, statuses, uid, wait_for_object};

#[tokio::test]
async fn a_pod_lost_by_the_runtime_while_no_agent_ran_keeps_its_status() {
    let mut tenant = Tenant::new("lost", 1).await.unwrap();
    let before = run(&tenant, pod("kept", IDLE)).await.unwrap();
    let node = &mut tenant.nodes[0];
    node.stop_agent().await.unwrap();
    let cri = node.host().cri();
    let own = cri
        .sandboxes()
        .await
        .unwrap()
        .into_iter()
        .find(|sandbox| sandbox.metadata.as_ref().is_some_and(|metadata| metadata.uid == uid(&before)));
    cri.remove_sandbox(&own.unwrap().id).await.unwrap();
    node.start_agent().unwrap();
    let runs_again = |pod: &Pod| is_ready(pod) && container_id(pod) != container_id(&before);
    let after = wait_for_object(&tenant.api(), "kept", SOON, runs_again).await.unwrap();
    let status = &statuses(&after)[0];
    let last = status.last_state.clone().unwrap_or_default().terminated.unwrap_or_default();
    assert_eq!((status.restart_count, last.exit_code), (1, 137), "{status:?}");
    assert_eq!(last.reason.as_deref(), Some("ContainerStatusUnknown"));
    assert_eq!(phase(&after), "Running");
    let start = |pod: &Pod| pod.status.as_ref().and_then(|status| status.start_time.clone());
    assert_eq!(start(&after), start(&before));
}
