//! Pods that need objects of the API server, on a whole node in memory: they start as soon as there is what they need.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Pod, PodSpec};
use serde_json::{Value, json};
use tokio::time::sleep;

use super::testing::{Node, pod};
use crate::pod::Activity;
use crate::volume::objects::{Known, ObjectError, ObjectKind};

const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);
/// Far less than any back-off.
const AT_ONCE: Duration = Duration::from_millis(100);

/// A pod with these fields of its spec beside the usual ones.
fn pod_that(fields: Value) -> Arc<Pod> {
    let mut pod = pod("web", "u1", &["c"]);
    let spec = &mut Arc::make_mut(&mut pod).spec;
    let mut json = serde_json::to_value(&*spec).unwrap();
    for (field, value) in fields.as_object().unwrap() {
        json[field] = value.clone();
    }
    *spec = Some(serde_json::from_value::<PodSpec>(json).unwrap());
    pod
}

#[tokio::test(start_paused = true)]
async fn a_pod_whose_volume_has_no_object_starts_as_soon_as_it_has() {
    let mut node = Node::new();
    let volumes = json!([{"name": "v", "configMap": {"name": "cm"}}]);
    node.want([pod_that(json!({"volumes": volumes}))]);
    node.until("it is told", SECOND, |n| {
        matches!(n.activity("u1"), Some(Activity::Retrying { error: Some(error) }) if error.contains("not found"))
    })
    .await;
    sleep(MINUTE).await;
    assert!(!node.has("u1"));
    node.objects.put(ObjectKind::ConfigMap, "default", "cm", &[("k", "v")]);
    node.until("it runs", AT_ONCE, |n| n.running("u1").len() == 1).await;
    // Lost while it runs: told, and no reason to do anything about what runs.
    let refused = Known::Failed(ObjectError::Forbidden("no".into()));
    node.objects.set(ObjectKind::ConfigMap, "default", "cm", refused);
    sleep(MINUTE).await;
    assert_eq!(node.changes_of("u1").len(), 3);
}
