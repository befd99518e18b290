//! The Node object: its fields, and what happens to it when the agent dies.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::time::Duration;

use hostlet_integration::cluster::{Tenant, check};
use hostlet_integration::{Look, wait_for};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Event, Node, NodeCondition, NodeStatus, Pod};
use kube::Api;
use kube::api::{ListParams, Patch, PatchParams};
use serde_json::{Value, json};

use crate::support::{
    IDLE, SOON, container_id, delete, is_ready, line, pod, run, statuses, wait_for_object, wait_until_gone,
};

/// The condition of a kind.
fn condition<'a>(node: &'a Node, kind: &str) -> Option<&'a NodeCondition> {
    node.status.as_ref()?.conditions.as_ref()?.iter().find(|condition| condition.type_ == kind)
}

fn status(node: &Node) -> NodeStatus {
    node.status.clone().unwrap_or_default()
}

#[tokio::test]
async fn a_node_registers_with_all_fields_of_a_kubelet() {
    let mut tenant = Tenant::new("register", 1).await.unwrap();
    let client = tenant.client();
    tenant.nodes[0].wait_until_ready(&client).await.unwrap();
    // These follow readiness: a controller removes a taint and sets an annotation, and images are listed.
    let images = |node: &Node| -> Vec<String> {
        status(node).images.into_iter().flatten().flat_map(|image| image.names.unwrap_or_default()).collect()
    };
    let complete = |node: &Node| {
        let untainted = node.spec.as_ref().is_none_or(|spec| spec.taints.is_none());
        let annotated = node.metadata.annotations.as_ref();
        let annotated = annotated.is_some_and(|all| all.contains_key("node.alpha.kubernetes.io/ttl"));
        let wanted = ["hostlet.local/pause:1", "hostlet.local/busybox:1"];
        let listed = wanted.iter().all(|name| images(node).iter().any(|image| image == name));
        let conditions = status(node).conditions.unwrap_or_default();
        let observed = conditions.iter().all(|condition| condition.status != "Unknown");
        untainted && annotated && listed && observed
    };
    let nodes: Api<Node> = Api::all(client.clone());
    let node = wait_for_object(&nodes, tenant.nodes[0].name(), SOON, complete).await.unwrap();
    let seen = status(&node);
    let info = seen.node_info.clone().unwrap();
    let conditions = seen.conditions.clone();
    let reported = json!({
        "labels": node.metadata.labels,
        "annotations": node.metadata.annotations,
        "spec": node.spec,
        "addresses": seen.addresses,
        "conditions": conditions,
        "operatingSystem": info.operating_system,
        "architecture": info.architecture,
        "kubeProxyVersion": info.kube_proxy_version,
    });
    let names = [
        (tenant.namespace(), "(tenant)"),
        (tenant.nodes[0].address(), "(address)"),
        (tenant.nodes[0].name(), "(node)"),
    ];
    check("node", &reported, &names).unwrap();
    assert_eq!(seen.daemon_endpoints.unwrap().kubelet_endpoint.unwrap().port, 10250);

    assert!(info.kubelet_version.starts_with("v1."), "{info:?}");
    assert!(info.container_runtime_version.starts_with("containerd://"), "{info:?}");
    assert_eq!(info.kernel_version, fs::read_to_string("/proc/sys/kernel/osrelease").unwrap().trim());
    assert_eq!(info.boot_id, fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap().trim());

    let (capacity, allocatable) = (seen.capacity.unwrap(), seen.allocatable.unwrap());
    let meminfo = fs::read_to_string("/proc/meminfo").unwrap();
    let total = meminfo.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap();
    assert_eq!(capacity["memory"].0, format!("{total}Ki"));
    // The hard eviction threshold of the tests' configuration is not available to pods.
    assert_eq!(allocatable["memory"].0, format!("{}Ki", total - 50 * 1024));
    assert_eq!(capacity["cpu"].0, std::thread::available_parallelism().unwrap().to_string());
    assert_eq!(capacity["cpu"], allocatable["cpu"]);
    assert_eq!((capacity["pods"].0.as_str(), allocatable["pods"].0.as_str()), ("110", "110"));
    assert!(capacity["ephemeral-storage"].0.ends_with(|c: char| c.is_ascii_digit()), "{capacity:?}");

    let handlers = tenant.nodes[0].host().cri().runtime_handlers().await.unwrap();
    let reported =
        seen.runtime_handlers.unwrap_or_default().into_iter().map(|handler| handler.name.unwrap_or_default());
    let mut reported: Vec<String> = reported.collect();
    reported.sort();
    assert_eq!(reported, handlers);
}

#[tokio::test]
async fn events_of_a_node_that_starts_equal_the_stock_kubelets() {
    // The event for cgroup v1 depends on the host; the stock kubelet sometimes checks the disk before it knows its size; and every
    // node of the host reports what the kernel logs, such as kills of other tests.
    const CHANCE: [&str; 5] = ["CgroupV1", "InvalidDiskCapacity", "OOMKilling", "SystemOOM", "TaskHung"];
    let tenant = Tenant::new("nodeevents", 1).await.unwrap();
    let node = tenant.nodes[0].name();
    let events: Api<Event> = Api::namespaced(tenant.client(), "default");
    let fields = ListParams::default().fields(&format!("involvedObject.name={node},source=kubelet"));
    let reported = wait_for("the events of the node", SOON, async || {
        let mut reported = events.list(&fields).await?.items;
        reported.sort_by_key(|event| event.reason.clone());
        let is_reported = |reason: &str| reported.iter().any(|event| event.reason.as_deref() == Some(reason));
        if !(is_reported("NodeReady") && is_reported("NodeAllocatableEnforced")) {
            return Ok(Look::NotYet(format!("{reported:?}")));
        }
        let on_v1 = !Path::new("/sys/fs/cgroup/cgroup.controllers").exists();
        anyhow::ensure!(is_reported("CgroupV1") == on_v1, "cgroup v1: {on_v1}, events: {reported:?}");
        let steady =
            reported.iter().filter(|event| !CHANCE.contains(&event.reason.as_deref().unwrap_or_default()));
        let lines: Vec<Value> = steady.map(line).collect();
        check("events-node", &Value::from(lines), &[(node, "(node)")])?;
        Ok(Look::Done(()))
    });
    reported.await.unwrap();
}

#[tokio::test]
async fn a_kill_because_the_host_has_no_memory_left_is_an_event() {
    let tenant = Tenant::new("oom", 1).await.unwrap();
    let node = tenant.nodes[0].name();
    // What the kernel logs of such a kill, without one.
    let mut log = fs::File::options().append(true).open("/dev/kmsg").unwrap();
    let pid = std::process::id();
    for message in [
        "victim invoked oom-killer: gfp_mask=0x140cca, order=0, oom_score_adj=0\n".to_owned(),
        format!(
            "Out of memory: Killed process {pid} (victim) total-vm:8kB, anon-rss:8kB, UID:0 oom_score_adj:0\n"
        ),
    ] {
        log.write_all(message.as_bytes()).unwrap();
    }
    let events: Api<Event> = Api::namespaced(tenant.client(), "default");
    let fields = ListParams::default().fields(&format!("involvedObject.name={node},reason=SystemOOM"));
    let message = format!("System OOM encountered, victim process: victim, pid: {pid}");
    let reported = wait_for("an event", SOON, async || {
        let events = events.list(&fields).await?.items;
        let ours = events.iter().find(|event| event.message.as_ref() == Some(&message));
        Ok(ours.map_or_else(|| Look::NotYet(format!("{events:?}")), |event| Look::Done(line(event))))
    });
    let expected = json!({
        "type": "Warning",
        "reason": "SystemOOM",
        "message": message,
        "component": "kubelet",
        "host": node,
        "reportingComponent": "kubelet",
        "kind": "Node",
        "apiVersion": "v1",
        "fieldPath": null,
    });
    assert_eq!(reported.await.unwrap(), expected);
}

#[tokio::test]
async fn a_lease_is_kept_and_belongs_to_the_node() {
    let mut tenant = Tenant::new("lease", 1).await.unwrap();
    let client = tenant.client();
    let node = tenant.nodes[0].wait_until_ready(&client).await.unwrap();
    let leases: Api<Lease> = Api::namespaced(client, "kube-node-lease");
    let owned = |lease: &Lease| lease.metadata.owner_references.is_some();
    let lease = wait_for_object(&leases, tenant.nodes[0].name(), SOON, owned).await.unwrap();
    let owner = &lease.metadata.owner_references.clone().unwrap()[0];
    assert_eq!((owner.api_version.as_str(), owner.kind.as_str()), ("v1", "Node"));
    assert_eq!(
        (&owner.name, Some(&owner.uid)),
        (node.metadata.name.as_ref().unwrap(), node.metadata.uid.as_ref())
    );
    let spec = lease.spec.unwrap();
    assert_eq!(spec.holder_identity.as_deref(), Some(tenant.nodes[0].name()));
    assert_eq!(spec.lease_duration_seconds, Some(20));
    let renewed = |lease: &Lease| lease.spec.as_ref().is_some_and(|now| now.renew_time > spec.renew_time);
    wait_for_object(&leases, tenant.nodes[0].name(), SOON, renewed).await.unwrap();
}

#[tokio::test]
async fn changes_of_other_clients_to_a_node_are_preserved() {
    let often = json!({"nodeStatusUpdateFrequency": "1s", "nodeStatusReportFrequency": "2s"});
    let mut tenant = Tenant::with("others", 1, &often).await.unwrap();
    let nodes: Api<Node> = Api::all(tenant.client());
    let name = tenant.nodes[0].name().to_owned();
    let theirs = json!({
        "metadata": {"labels": {"example.com/rack": "7"}, "annotations": {"example.com/note": "kept"}},
        "spec": {"taints": [{"key": "example.com/mine", "value": "x", "effect": "PreferNoSchedule"}]},
    });
    nodes.patch(&name, &PatchParams::default(), &Patch::Strategic(theirs)).await.unwrap();
    let now = "2026-01-01T00:00:00Z";
    let theirs = json!({"status": {"conditions": [{
        "type": "ExampleHealthy", "status": "True", "reason": "Checked", "message": "by a test",
        "lastHeartbeatTime": now, "lastTransitionTime": now,
    }]}});
    nodes.patch_status(&name, &PatchParams::default(), &Patch::Strategic(theirs)).await.unwrap();

    for restart in [false, true] {
        if restart {
            tenant.nodes[0].stop_agent().await.unwrap();
            tenant.nodes[0].start_agent().unwrap();
        }
        let before = nodes.get(&name).await.unwrap();
        let heartbeat = condition(&before, "Ready").unwrap().last_heartbeat_time.clone();
        let later =
            |node: &Node| condition(node, "Ready").is_some_and(|ready| ready.last_heartbeat_time > heartbeat);
        let node = wait_for_object(&nodes, &name, SOON, later).await.unwrap();
        assert_eq!(node.metadata.labels.as_ref().unwrap()["example.com/rack"], "7");
        assert_eq!(node.metadata.annotations.as_ref().unwrap()["example.com/note"], "kept");
        let taints = node.spec.clone().unwrap_or_default().taints.unwrap_or_default();
        assert!(taints.iter().any(|taint| taint.key == "example.com/mine"), "{taints:?}");
        let theirs = condition(&node, "ExampleHealthy").unwrap();
        assert_eq!((theirs.status.as_str(), theirs.reason.as_deref()), ("True", Some("Checked")));
    }
}

#[tokio::test]
async fn a_node_is_not_ready_without_its_agent_and_ready_with_it_again() {
    let mut tenant = Tenant::new("outage", 1).await.unwrap();
    let nodes: Api<Node> = Api::all(tenant.client());
    let before = run(&tenant, pod("lives-on", IDLE)).await.unwrap();
    let node = tenant.nodes[0].name().to_owned();
    tenant.nodes[0].kill_agent().unwrap();
    let unknown = |node: &Node| condition(node, "Ready").is_some_and(|ready| ready.status == "Unknown");
    let lost = wait_for_object(&nodes, &node, SOON, unknown).await.unwrap();
    assert_eq!(condition(&lost, "Ready").unwrap().reason.as_deref(), Some("NodeStatusUnknown"));
    let pods = tenant.api::<Pod>();
    wait_for_object(&pods, "lives-on", SOON, |pod| !is_ready(pod)).await.unwrap();

    tenant.nodes[0].start_agent().unwrap();
    let ready = |node: &Node| {
        let ready = condition(node, "Ready").is_some_and(|ready| ready.status == "True");
        ready && node.spec.as_ref().is_some_and(|spec| spec.taints.as_ref().is_none_or(Vec::is_empty))
    };
    wait_for_object(&nodes, &node, Duration::from_secs(120), ready).await.unwrap();
    let after = wait_for_object(&pods, "lives-on", SOON, is_ready).await.unwrap();
    assert_eq!(container_id(&before), container_id(&after));
    assert_eq!(statuses(&after)[0].restart_count, 0);
}

#[tokio::test]
async fn a_changed_node_address_is_in_the_first_node_status_and_in_its_pods() {
    let mut tenant = Tenant::new("readdress", 1).await.unwrap();
    let mut on_host = pod("on-host", IDLE);
    on_host["spec"]["hostNetwork"] = json!(true);
    run(&tenant, on_host).await.unwrap();
    run(&tenant, pod("beside", IDLE)).await.unwrap();
    tenant.nodes[0].stop_agent().await.unwrap();
    let address = tenant.nodes[0].readdress().unwrap();
    tenant.nodes[0].start_agent().unwrap();

    let nodes: Api<Node> = Api::all(tenant.client());
    let reported = |node: &Node| {
        let internal = |(kind, reported): (&str, &str)| kind == "InternalIP" && reported == address;
        let addresses = status(node).addresses.unwrap_or_default();
        addresses.iter().any(|reported| internal((&reported.type_, &reported.address)))
    };
    let node = wait_for_object(&nodes, tenant.nodes[0].name(), SOON, reported).await.unwrap();
    let internal =
        status(&node).addresses.into_iter().flatten().filter(|reported| reported.type_ == "InternalIP");
    assert_eq!(internal.count(), 1, "the one before is gone");
    let pods = tenant.api::<Pod>();
    for name in ["on-host", "beside"] {
        let follows = |pod: &Pod| {
            let status = pod.status.clone().unwrap_or_default();
            let hosts: Vec<String> = status.host_ips.into_iter().flatten().map(|host| host.ip).collect();
            status.host_ip.as_ref() == Some(&address) && hosts == [address.clone()]
        };
        let seen = wait_for_object(&pods, name, SOON, follows).await.unwrap();
        let pod_ip = seen.status.unwrap_or_default().pod_ip;
        assert_eq!(pod_ip.as_ref() == Some(&address), name == "on-host", "{pod_ip:?}");
        delete(&tenant, name, None).await.unwrap();
        wait_until_gone(&pods, name).await.unwrap();
    }
}
