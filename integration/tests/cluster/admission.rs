//! Pods that the kubelet rejects: their phase, reason and message.

use hostlet_integration::cluster::{Tenant, check};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

use crate::support::{IDLE, SOON, phase, pod, run, wait_for_object};

/// Creates a pod that bypasses the scheduler, waits until it failed, and compares its status with the record.
async fn rejected(tenant: &Tenant, mut object: Value, record: &str) {
    object["spec"]["nodeName"] = json!(tenant.nodes[0].name());
    let name = object["metadata"]["name"].as_str().unwrap().to_owned();
    tenant.create_pod(object).await.unwrap();
    let pod = wait_for_object(&tenant.api::<Pod>(), &name, SOON, |pod| phase(pod) == "Failed").await.unwrap();
    let cores = std::thread::available_parallelism().unwrap().get();
    let capacity = format!("capacity: {}", cores * 1000);
    let names = [(capacity.as_str(), "capacity: (all)"), (tenant.nodes[0].name(), "(node)")];
    check(record, &serde_json::to_value(pod.status).unwrap(), &names).unwrap();
}

#[tokio::test]
async fn pods_that_do_not_fit_fail_with_upstreams_reasons() {
    let tenant = Tenant::new("rejected", 1).await.unwrap();
    let mut holds = pod("holds", IDLE);
    holds["spec"]["containers"][0]["ports"] = json!([{"containerPort": 80, "hostPort": 5080}]);
    run(&tenant, holds.clone()).await.unwrap();

    let mut conflicts = holds;
    conflicts["metadata"]["name"] = json!("conflicts");
    rejected(&tenant, conflicts, "rejected-port").await;

    let mut elsewhere = pod("elsewhere", IDLE);
    elsewhere["spec"]["nodeSelector"] = json!({"example.com/rack": "none"});
    rejected(&tenant, elsewhere, "rejected-selector").await;

    let mut huge = pod("huge", IDLE);
    huge["spec"]["containers"][0]["resources"] = json!({"requests": {"cpu": "500"}});
    rejected(&tenant, huge, "rejected-cpu").await;

    let mut windows = pod("windows", IDLE);
    windows["spec"]["os"] = json!({"name": "windows"});
    rejected(&tenant, windows, "rejected-os").await;

    let mut sysctl = pod("sysctl", IDLE);
    sysctl["spec"]["securityContext"] = json!({"sysctls": [{"name": "net.core.somaxconn", "value": "1"}]});
    rejected(&tenant, sysctl, "rejected-sysctl").await;
}

#[tokio::test]
async fn storage_that_is_not_isolated_can_neither_be_requested_nor_does_a_limit_of_a_volume_apply() {
    let no_isolation = json!({"localStorageCapacityIsolation": false});
    let tenant = Tenant::with("unisolated", 1, &no_isolation).await.unwrap();
    let node = Api::<Node>::all(tenant.client()).get(tenant.nodes[0].name()).await.unwrap();
    let status = node.status.unwrap_or_default();
    for amounts in [status.capacity, status.allocatable] {
        assert!(!amounts.unwrap_or_default().contains_key("ephemeral-storage"));
    }
    for (name, resources) in [
        ("requests", json!({"requests": {"ephemeral-storage": "1Mi"}})),
        ("limits", json!({"limits": {"ephemeral-storage": "1Mi"}})),
    ] {
        let mut stored = pod(name, IDLE);
        stored["spec"]["containers"][0]["resources"] = resources;
        rejected(&tenant, stored, "rejected-storage").await;
    }
    let mut full = pod("full", &format!("dd if=/dev/zero of=/data/file bs=1M count=3; {IDLE}"));
    full["spec"]["volumes"] = json!([{"name": "data", "emptyDir": {"sizeLimit": "1Mi"}}]);
    full["spec"]["containers"][0]["volumeMounts"] = json!([{"name": "data", "mountPath": "/data"}]);
    run(&tenant, full).await.unwrap();
}

#[tokio::test]
async fn admission_uses_a_label_added_to_the_node_just_before() {
    let tenant = Tenant::new("labelled", 1).await.unwrap();
    let name = tenant.nodes[0].name().to_owned();
    let nodes: Api<Node> = Api::all(tenant.client());
    for rack in ["1", "2", "3"] {
        let label = json!({"metadata": {"labels": {format!("example.com/rack-{rack}"): ""}}});
        nodes.patch(&name, &PatchParams::default(), &Patch::Strategic(label)).await.unwrap();
        let mut fits = pod(&format!("fits-{rack}"), "true");
        fits["spec"]["nodeName"] = json!(name);
        fits["spec"]["restartPolicy"] = json!("Never");
        fits["spec"]["nodeSelector"] = json!({format!("example.com/rack-{rack}"): ""});
        tenant.create_pod(fits).await.unwrap();
    }
    for rack in ["1", "2", "3"] {
        let pods = tenant.api::<Pod>();
        let ended = |pod: &Pod| matches!(phase(pod), "Succeeded" | "Failed");
        let pod = wait_for_object(&pods, &format!("fits-{rack}"), SOON, ended).await.unwrap();
        assert_eq!(phase(&pod), "Succeeded", "{:?}", pod.status);
    }
}
