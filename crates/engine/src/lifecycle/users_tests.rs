//! Pods with user namespaces on an in-memory node.

use std::sync::Arc;
use std::time::Duration;

use hostlet_observe::status::Activity;
use hostlet_pod::AdmittedPod;
use hostlet_runtime::cri::RuntimeHandler;
use hostlet_runtime::cri::wire::{NamespaceMode, UserNamespace};

use super::testing::{Node, pod};

const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);

fn isolated(name: &str, uid: &str) -> Arc<AdmittedPod> {
    pod(name, uid, &["c"]).edited(|pod| pod.spec.get_or_insert_default().host_users = Some(false))
}

/// The user namespace of the pod's sandbox and of its container.
fn users(node: &Node, uid: &str) -> [UserNamespace; 2] {
    let sandboxes = node.runtime.wire_sandboxes();
    let its = sandboxes.iter().find(|sandbox| sandbox.metadata.as_ref().unwrap().uid == uid).unwrap();
    let sandbox = node.runtime.sandbox_config(&its.id.as_str().into()).unwrap();
    let container = node.containers().into_iter().find(|container| container.uid == uid).unwrap();
    let container = node.runtime.container_config(&container.id.as_str().into()).unwrap();
    let of_sandbox = sandbox.linux.unwrap().security_context.unwrap().namespace_options.unwrap();
    let of_container = container.linux.unwrap().security_context.unwrap().namespace_options.unwrap();
    [of_sandbox.userns_options.unwrap(), of_container.userns_options.unwrap()]
}

#[tokio::test(start_paused = true)]
async fn each_pod_has_its_own_ids_as_long_as_it_runs() {
    let mut node = Node::new();
    node.want([isolated("a", "u1")]);
    let refused = "Failed to create pod sandbox: can't set `spec.hostUsers: false`, runtime does not support user namespaces";
    node.until(
        "it is refused",
        SECOND,
        |n| matches!(n.activity("u1"), Some(Activity::Retrying { error: Some(error) }) if error == refused),
    )
    .await;
    let handler = RuntimeHandler { user_namespaces: true, ..RuntimeHandler::default() };
    node.status.send_modify(|status| status.as_mut().unwrap().handlers = vec![handler]);
    node.want([isolated("a", "u1"), isolated("b", "u2"), pod("c", "u3", &["c"])]);
    node.until("all run", MINUTE, |n| ["u1", "u2", "u3"].iter().all(|uid| n.running(uid).len() == 1)).await;
    let ([a, in_a], [b, in_b], [host, _]) = (users(&node, "u1"), users(&node, "u2"), users(&node, "u3"));
    assert_eq!((a.mode(), &a), (NamespaceMode::Pod, &in_a));
    assert_eq!(b, in_b);
    assert_ne!(a.uids, b.uids);
    assert_eq!((a.uids.len(), &a.uids), (1, &a.gids));
    assert_eq!((host.mode(), host.uids.len()), (NamespaceMode::Node, 0));

    // The next daemon restarts the container with the same IDs.
    node.stop().await;
    node.boot();
    let container = node.containers().into_iter().find(|container| container.uid == "u1").unwrap().id;
    node.runtime.exit_container(&container.as_str().into(), 1);
    node.until("it was restarted", MINUTE, |n| n.running("u1") == [("c".to_owned(), 1)]).await;
    assert_eq!(users(&node, "u1"), [a.clone(), a]);
}
