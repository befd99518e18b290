//! Shared objects and waits.

use std::fmt::Debug;
use std::time::Duration;

use anyhow::{Result, ensure};
use hostlet_integration::cluster::{Node, Tenant};
use hostlet_integration::real::BUSYBOX_IMAGE;
use hostlet_integration::{Look, wait_for};
use k8s_openapi::api::core::v1::{ContainerStatus, Event, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::Api;
use kube::api::{DeleteParams, ListParams};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// Timeout for what takes a healthy node a second or two.
pub(crate) const SOON: Duration = Duration::from_secs(180);
/// Timeout for what waits for a back-off, a periodic clean-up, or many pods.
pub(crate) const LATER: Duration = Duration::from_secs(600);

/// A script that sleeps until SIGTERM.
pub(crate) const IDLE: &str = "trap 'exit 0' TERM; sleep 100000 & wait";

/// A container named `main` that runs a script.
pub(crate) fn container(script: &str) -> Value {
    json!({"name": "main", "image": BUSYBOX_IMAGE, "command": ["sh", "-c", script]})
}

/// A pod with one container that runs a script. It terminates within 2 s, and has no token.
pub(crate) fn pod(name: &str, script: &str) -> Value {
    json!({
        "metadata": {"name": name},
        "spec": {
            "terminationGracePeriodSeconds": 2,
            "automountServiceAccountToken": false,
            "containers": [container(script)],
        },
    })
}

/// Waits until the object satisfies `wanted`.
pub(crate) async fn wait_for_object<K>(
    api: &Api<K>,
    name: &str,
    timeout: Duration,
    wanted: impl Fn(&K) -> bool,
) -> Result<K>
where
    K: Clone + Debug + DeserializeOwned + Serialize,
{
    wait_for(name, timeout, async || {
        let object = api.get(name).await?;
        Ok(if wanted(&object) { Look::Done(object) } else { Look::NotYet(serde_json::to_string(&object)?) })
    })
    .await
}

/// Waits until there is no such object.
pub(crate) async fn wait_until_gone<K>(api: &Api<K>, name: &str) -> Result<()>
where
    K: Clone + Debug + DeserializeOwned + Serialize,
{
    wait_for(&format!("no {name}"), SOON, async || {
        let object = api.get_opt(name).await?;
        Ok(object.map_or(Ok(Look::Done(())), |object| serde_json::to_string(&object).map(Look::NotYet))?)
    })
    .await
}

/// Waits until the tenant's pods satisfy `wanted` all together.
pub(crate) async fn wait_for_pods(
    tenant: &Tenant,
    what: &str,
    timeout: Duration,
    wanted: impl Fn(&[Pod]) -> bool,
) -> Result<Vec<Pod>> {
    wait_for(what, timeout, async || {
        let pods = tenant.api::<Pod>().list(&ListParams::default()).await?.items;
        if wanted(&pods) {
            return Ok(Look::Done(pods));
        }
        let lines = pods.iter().map(|pod| format!("{}: {:?}", name(pod), pod.status));
        Ok(Look::NotYet(lines.collect::<Vec<_>>().join("\n")))
    })
    .await
}

/// Creates a pod and waits until it is ready.
pub(crate) async fn run(tenant: &Tenant, pod: Value) -> Result<Pod> {
    let made = tenant.create_pod(pod).await?;
    wait_for_object(&tenant.api(), &name(&made), SOON, is_ready).await
}

/// Asserts that a pod still runs as it was seen: the same pod, with containers that did not restart. It may be not ready for
/// a moment, because the node controller says so of every pod on a node whose lease was renewed late.
pub(crate) async fn assert_undisturbed(tenant: &Tenant, before: &Pod) -> Result<()> {
    let now = wait_for_object(&tenant.api(), &name(before), SOON, is_ready).await?;
    let restarts = |pod: &Pod| statuses(pod).iter().map(|status| status.restart_count).collect::<Vec<_>>();
    ensure!(uid(&now) == uid(before), "another pod of that name: {now:?}");
    ensure!(restarts(&now) == restarts(before), "a container restarted: {:?}", now.status);
    Ok(())
}

/// Deletes a pod, with its own grace period or another one.
pub(crate) async fn delete(tenant: &Tenant, name: &str, grace: Option<u32>) -> Result<()> {
    let params = DeleteParams { grace_period_seconds: grace, ..DeleteParams::default() };
    tenant.api::<Pod>().delete(name, &params).await?;
    Ok(())
}

/// Whether a pod's condition `Ready` is true.
pub(crate) fn is_ready(pod: &Pod) -> bool {
    let conditions = pod.status.as_ref().and_then(|status| status.conditions.as_deref()).unwrap_or_default();
    conditions.iter().any(|condition| condition.type_ == "Ready" && condition.status == "True")
}

/// The name of a pod.
pub(crate) fn name(pod: &Pod) -> String {
    pod.metadata.name.clone().unwrap_or_default()
}

/// The UID of a pod.
pub(crate) fn uid(pod: &Pod) -> String {
    pod.metadata.uid.clone().unwrap_or_default()
}

/// The phase of a pod.
pub(crate) fn phase(pod: &Pod) -> &str {
    pod.status.as_ref().and_then(|status| status.phase.as_deref()).unwrap_or_default()
}

/// The node of a pod.
pub(crate) fn node_name(pod: &Pod) -> &str {
    pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref()).unwrap_or_default()
}

/// The IP address of a pod.
pub(crate) fn ip(pod: &Pod) -> String {
    pod.status.as_ref().and_then(|status| status.pod_ip.clone()).unwrap_or_default()
}

/// Whether a pod is marked for deletion.
pub(crate) fn deleted(pod: &Pod) -> Option<&Time> {
    pod.metadata.deletion_timestamp.as_ref()
}

/// The statuses of a pod's containers.
pub(crate) fn statuses(pod: &Pod) -> &[ContainerStatus] {
    pod.status.as_ref().and_then(|status| status.container_statuses.as_deref()).unwrap_or_default()
}

/// The runtime's ID of a pod's only container.
pub(crate) fn container_id(pod: &Pod) -> String {
    statuses(pod)[0].container_id.clone().unwrap_or_default()
}

/// Waits until nothing of any pod is on the node: in the runtime, under the agent's directory, in the logs, in cgroups.
pub(crate) async fn wait_until_clean(node: &Node) -> Result<()> {
    wait_for("a node without pods", LATER, async || {
        let left = node.leftovers().await?;
        Ok(if left.is_empty() { Look::Done(()) } else { Look::NotYet(left.join("\n")) })
    })
    .await
}

/// An event without its times and its count.
pub(crate) fn line(event: &Event) -> Value {
    json!({
        "type": event.type_,
        "reason": event.reason,
        "message": event.message,
        "component": event.source.as_ref().and_then(|source| source.component.clone()),
        "host": event.source.as_ref().and_then(|source| source.host.clone()),
        "reportingComponent": event.reporting_component,
        "kind": event.involved_object.kind,
        "apiVersion": event.involved_object.api_version,
        "fieldPath": event.involved_object.field_path,
    })
}
