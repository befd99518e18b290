//! Node addresses that become known late or change, on an in-memory node.

use std::sync::Arc;
use std::time::Duration;

use hostlet_observe::status::Activity;
use hostlet_pod::AdmittedPod;
use k8s_openapi::api::core::v1::PodStatus;
use serde_json::json;

use super::testing::{Node, pod};

const SECOND: Duration = Duration::from_secs(1);
/// Much shorter than the resync interval and any back-off: at most the next relist.
const AT_ONCE: Duration = Duration::from_secs(2);

/// A pod with the host's network, whose container has the host's address as a variable.
fn on_the_host() -> Arc<AdmittedPod> {
    let pod = pod("web", "u1", &["c"]);
    let variable = json!({"name": "HOST_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.hostIP"}}});
    pod.edited(|pod| {
        let spec = pod.spec.as_mut().unwrap();
        spec.host_network = Some(true);
        spec.containers[0].env = Some(vec![serde_json::from_value(variable).unwrap()]);
    })
}

fn ips(status: &PodStatus) -> [Option<&str>; 4] {
    let host = status.host_ips.as_ref().and_then(|ips| Some(ips.first()?.ip.as_str()));
    let pod = status.pod_ips.as_ref().and_then(|ips| Some(ips.first()?.ip.as_str()));
    [status.host_ip.as_deref(), host, status.pod_ip.as_deref(), pod]
}

#[tokio::test(start_paused = true)]
async fn a_pod_has_its_nodes_current_addresses() {
    let mut node = Node::new();
    node.want([on_the_host()]);
    let has = |ip| move |node: &Node| node.status("u1").is_some_and(|status| ips(&status) == [Some(ip); 4]);
    node.until("it runs", SECOND, |node| node.running("u1").len() == 1).await;
    node.until("it has the first address", SECOND, has("192.0.2.1")).await;
    node.readdress(Some("192.0.2.2"));
    node.until("it has the next address", AT_ONCE, has("192.0.2.2")).await;
    assert_eq!(node.running("u1").len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_container_that_needs_the_hosts_address_starts_once_it_is_known() {
    let mut node = Node::new();
    node.readdress(None);
    node.want([on_the_host()]);
    node.until("it is reported", SECOND, |node| {
        matches!(node.activity("u1"), Some(Activity::Retrying { error: Some(_) }))
    })
    .await;
    tokio::time::sleep(60 * SECOND).await;
    assert!(node.running("u1").is_empty());
    node.readdress(Some("192.0.2.2"));
    node.until("it runs", AT_ONCE, |node| node.running("u1").len() == 1).await;
}
