//! In-place resizes through the API server's subresource: enforced without a restart or by one, and waiting for room.

use hostlet_integration::cluster::Tenant;
use hostlet_integration::{Look, wait_for};
use k8s_openapi::api::core::v1::{Event, Node, Pod, PodCondition};
use kube::Api;
use kube::api::{ListParams, Patch, PatchParams};
use serde_json::{Value, json};

use crate::support::{
    IDLE, LATER, SOON, container_id, delete, is_ready, pod, run, statuses, wait_for_object,
};

/// Succeeds in a container with this limit of memory, on cgroup v1 and v2.
fn has_memory(bytes: u64) -> Value {
    let files = "/sys/fs/cgroup/memory/memory.limit_in_bytes /sys/fs/cgroup/memory.max";
    let script = format!("cat {files} 2>/dev/null | grep -qx {bytes}");
    json!({"periodSeconds": 1, "failureThreshold": 1, "exec": {"command": ["sh", "-c", script]}})
}

fn resources(cpu: &str, memory: &str) -> Value {
    json!({"requests": {"cpu": cpu, "memory": memory}, "limits": {"cpu": "1", "memory": memory}})
}

async fn resize(tenant: &Tenant, name: &str, resources: Value) {
    let change = json!({"spec": {"containers": [{"name": "main", "resources": resources}]}});
    let api = tenant.api::<Pod>();
    api.patch_subresource("resize", name, &PatchParams::default(), &Patch::Strategic(change)).await.unwrap();
}

fn condition<'p>(pod: &'p Pod, type_: &str) -> Option<&'p PodCondition> {
    pod.status.as_ref()?.conditions.as_ref()?.iter().find(|condition| condition.type_ == type_)
}

fn allocated<'p>(pod: &'p Pod, resource: &str) -> Option<&'p str> {
    Some(&statuses(pod).first()?.allocated_resources.as_ref()?.get(resource)?.0)
}

/// The limit of memory that its container has.
fn limit(pod: &Pod) -> Option<&str> {
    Some(&statuses(pod).first()?.resources.as_ref()?.limits.as_ref()?.get("memory")?.0)
}

/// Waits for an event of the pod whose message begins like this.
async fn wait_for_event(tenant: &Tenant, pod: &str, reason: &str, begins: &str) {
    let api = tenant.api::<Event>();
    wait_for("the event", SOON, async || {
        let fields = format!("involvedObject.name={pod},reason={reason}");
        let events = api.list(&ListParams::default().fields(&fields)).await?.items;
        let messages: Vec<_> = events.into_iter().filter_map(|event| event.message).collect();
        let is_there = messages.iter().any(|message| message.starts_with(begins));
        Ok(if is_there { Look::Done(()) } else { Look::NotYet(messages.join("\n")) })
    })
    .await
    .unwrap();
}

#[tokio::test]
async fn a_container_is_resized_in_place_or_restarts_as_its_policy_says() {
    let tenant = Tenant::new("resize", 1).await.unwrap();
    let mut object = pod("grows", IDLE);
    let main = &mut object["spec"]["containers"][0];
    main["resources"] = resources("100m", "32Mi");
    main["resizePolicy"] = json!([{"resourceName": "cpu", "restartPolicy": "RestartContainer"}]);
    main["readinessProbe"] = has_memory(64 << 20);
    tenant.create_pod(object).await.unwrap();
    let api = tenant.api::<Pod>();
    let runs = |pod: &Pod| statuses(pod).first().is_some_and(|status| status.started == Some(true));
    let id = container_id(&wait_for_object(&api, "grows", SOON, runs).await.unwrap());

    resize(&tenant, "grows", resources("100m", "64Mi")).await;
    let done = |pod: &Pod| is_ready(pod) && condition(pod, "PodResizeInProgress").is_none();
    let pod = wait_for_object(&api, "grows", SOON, done).await.unwrap();
    assert_eq!((container_id(&pod), allocated(&pod, "memory")), (id.clone(), Some("64Mi")));
    let resources_of = r#"{"containers":[{"name":"main","resources":{"limits":{"cpu":"1","memory":"64Mi"},"requests":{"cpu":"100m","memory":"64Mi"}}}],"generation":2}"#;
    for (reason, what) in [("ResizeStarted", "started"), ("ResizeCompleted", "completed")] {
        wait_for_event(&tenant, "grows", reason, &format!("Pod resize {what}: {resources_of}")).await;
    }

    resize(&tenant, "grows", resources("200m", "64Mi")).await;
    let restarted = |pod: &Pod| statuses(pod).first().is_some_and(|status| status.restart_count == 1);
    let pod = wait_for_object(&api, "grows", SOON, |pod| restarted(pod) && done(pod)).await.unwrap();
    assert_ne!(container_id(&pod), id);
    assert_eq!(allocated(&pod, "cpu"), Some("200m"));
}

#[tokio::test]
async fn a_resize_that_does_not_fit_waits_until_there_is_room() {
    let tenant = Tenant::new("deferred", 1).await.unwrap();
    let nodes: Api<Node> = Api::all(tenant.client());
    let node = nodes.get(tenant.nodes[0].name()).await.unwrap();
    let allocatable = node.status.unwrap().allocatable.unwrap();
    let cores: u32 = allocatable["cpu"].0.parse().unwrap();
    let requesting = |cpu: String| json!({"requests": {"cpu": cpu}});
    let mut waits = pod("waits", IDLE);
    waits["spec"]["containers"][0]["resources"] = requesting("100m".to_owned());
    run(&tenant, waits).await.unwrap();
    let mut other = pod("other", IDLE);
    other["spec"]["containers"][0]["resources"] = requesting("500m".to_owned());
    run(&tenant, other).await.unwrap();

    resize(&tenant, "waits", requesting(cores.to_string())).await;
    let api = tenant.api::<Pod>();
    let deferred = |pod: &Pod| condition(pod, "PodResizePending").is_some();
    let pod = wait_for_object(&api, "waits", SOON, deferred).await.unwrap();
    let pending = condition(&pod, "PodResizePending").unwrap();
    assert_eq!((pending.reason.as_deref(), pending.observed_generation), (Some("Deferred"), Some(2)));
    let lacking = format!("Node didn't have enough resource: cpu, requested: {}, used: ", cores * 1000);
    assert!(pending.message.as_deref().unwrap().starts_with(&lacking), "{pending:?}");
    assert_eq!(allocated(&pod, "cpu"), Some("100m"));
    wait_for_event(&tenant, "waits", "ResizeDeferred", "Pod resize OutOfcpu: {").await;

    delete(&tenant, "other", Some(0)).await.unwrap();
    let done = |pod: &Pod| {
        let pending = ["PodResizePending", "PodResizeInProgress"].map(|type_| condition(pod, type_));
        pending.iter().all(Option::is_none) && allocated(pod, "cpu") == Some(cores.to_string().as_str())
    };
    // The stock kubelet tries again when a pod was removed, or after three minutes.
    let pod = wait_for_object(&api, "waits", LATER, done).await.unwrap();
    assert_eq!(statuses(&pod)[0].restart_count, 0);
}

#[tokio::test]
async fn a_pod_is_resized_as_a_whole() {
    let tenant = Tenant::new("whole", 1).await.unwrap();
    let mut object = pod("whole", IDLE);
    object["spec"]["resources"] = resources("100m", "32Mi");
    // A container without a limit of its own has the pod's.
    object["spec"]["containers"][0]["readinessProbe"] = has_memory(64 << 20);
    tenant.create_pod(object).await.unwrap();
    let api = tenant.api::<Pod>();
    let runs = |pod: &Pod| statuses(pod).first().is_some_and(|status| status.started == Some(true));
    let id = container_id(&wait_for_object(&api, "whole", SOON, runs).await.unwrap());
    let change = json!({"spec": {"resources": resources("100m", "64Mi")}});
    let change = Patch::Strategic(change);
    api.patch_subresource("resize", "whole", &PatchParams::default(), &change).await.unwrap();
    let done = |pod: &Pod| is_ready(pod) && condition(pod, "PodResizeInProgress").is_none();
    let pod = wait_for_object(&api, "whole", SOON, done).await.unwrap();
    assert_eq!(container_id(&pod), id);
    let status = pod.status.unwrap();
    assert_eq!(status.allocated_resources.unwrap()["memory"].0, "64Mi");
    assert_eq!(status.resources.unwrap().limits.unwrap()["memory"].0, "64Mi");
}

/// Holds 40 MiB until its pod is labeled `free`.
const HOLDS: &str = "dd if=/dev/zero of=/dev/shm/held bs=1M count=40 && touch /held; trap 'exit 0' TERM; \
    until grep -q free /pod/labels; do sleep 0.2; done; rm /dev/shm/held; sleep 100000 & wait";

#[tokio::test]
async fn memory_in_use_is_not_taken_away_and_a_resize_outlives_the_agent() {
    let mut tenant = Tenant::new("in-use", 1).await.unwrap();
    let mut object = pod("holds", HOLDS);
    object["metadata"]["labels"] = json!({"app": "holds"});
    let labels = json!([{"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}}]);
    object["spec"]["volumes"] = json!([{"name": "pod", "downwardAPI": {"items": labels}}]);
    let main = &mut object["spec"]["containers"][0];
    main["volumeMounts"] = json!([{"name": "pod", "mountPath": "/pod"}]);
    main["resources"] = resources("100m", "64Mi");
    main["readinessProbe"] = json!({"periodSeconds": 1, "exec": {"command": ["test", "-f", "/held"]}});
    let id = container_id(&run(&tenant, object).await.unwrap());

    resize(&tenant, "holds", resources("100m", "32Mi")).await;
    let api = tenant.api::<Pod>();
    let failed = |pod: &Pod| {
        condition(pod, "PodResizeInProgress").is_some_and(|it| it.reason.as_deref() == Some("Error"))
    };
    let pod = wait_for_object(&api, "holds", SOON, failed).await.unwrap();
    let message = condition(&pod, "PodResizeInProgress").unwrap().message.clone().unwrap();
    let in_use = "attempting to set container \"main\" memory limit (33554432) below current usage (";
    assert!(message.starts_with("cannot decrease memory limits: ") && message.contains(in_use), "{message}");
    assert_eq!((allocated(&pod, "memory"), limit(&pod)), (Some("32Mi"), Some("64Mi")));

    let node = &mut tenant.nodes[0];
    node.stop_agent().await.unwrap();
    node.start_agent().unwrap();
    let free = Patch::Merge(json!({"metadata": {"labels": {"free": "free"}}}));
    api.patch("holds", &PatchParams::default(), &free).await.unwrap();
    let done = |pod: &Pod| condition(pod, "PodResizeInProgress").is_none() && limit(pod) == Some("32Mi");
    // The stock kubelet writes the labels into the volume after up to a minute and a half.
    let pod = wait_for_object(&api, "holds", LATER, done).await.unwrap();
    assert_eq!((container_id(&pod), statuses(&pod)[0].restart_count), (id, 0));
    wait_for_event(&tenant, "holds", "ResizeCompleted", "Pod resize completed: {").await;
}
