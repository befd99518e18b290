//! Pods that use more local storage than they may: evicted with upstream's status, and others stay.

use hostlet_integration::cluster::{Tenant, check};
use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};

use crate::support::{LATER, assert_undisturbed, phase, pod, run, wait_for_object};

/// A script that sleeps until SIGTERM and then fails: the stock kubelet forgets an eviction whose containers all exit with 0, and
/// reports the phase Succeeded.
const FAILING: &str = "trap 'exit 1' TERM; sleep 100000 & wait";

/// A pod that writes this many MiB to `path`.
fn writer(name: &str, path: &str, mib: u32) -> Value {
    pod(name, &format!("dd if=/dev/zero of={path} bs=1M count={mib}; {FAILING}"))
}

fn with_limit(mut pod: Value, amount: &str) -> Value {
    pod["spec"]["containers"][0]["resources"] = json!({"limits": {"ephemeral-storage": amount}});
    pod
}

fn with_volume(mut pod: Value, source: Value) -> Value {
    pod["spec"]["volumes"] = json!([{"name": "data", "emptyDir": source}]);
    pod["spec"]["containers"][0]["volumeMounts"] = json!([{"name": "data", "mountPath": "/data"}]);
    pod
}

#[tokio::test]
async fn pods_beyond_their_storage_limits_are_evicted_as_by_the_stock_kubelet() {
    let tenant = Tenant::new("eviction", 1).await.unwrap();
    let small = || json!({"sizeLimit": "4Mi"});
    let modest = [
        run(&tenant, with_volume(writer("modest", "/data/file", 3), small())).await.unwrap(),
        run(&tenant, with_limit(writer("modest-layer", "/file", 3), "8Mi")).await.unwrap(),
    ];

    let mut sidecar = with_limit(writer("container", "/file", 9), "4Mi");
    let mut roomy = sidecar["spec"]["containers"][0].clone();
    roomy["name"] = json!("roomy");
    roomy["command"] = json!(["sh", "-c", FAILING]);
    roomy["resources"] = json!({"limits": {"ephemeral-storage": "100Mi"}});
    sidecar["spec"]["containers"].as_array_mut().unwrap().push(roomy);

    let evicted = [
        ("volume", with_volume(writer("volume", "/data/file", 6), small())),
        ("whole", with_limit(with_volume(writer("whole", "/data/file", 6), json!({})), "4Mi")),
        ("layer", with_limit(writer("layer", "/file", 6), "4Mi")),
        ("container", sidecar),
    ];
    for (name, object) in evicted {
        tenant.create_pod(object).await.unwrap();
        let failed = |pod: &Pod| phase(pod) == "Failed";
        let pod = wait_for_object(&tenant.api::<Pod>(), name, LATER, failed).await.unwrap();
        let status = pod.status.unwrap();
        let seen = json!({"phase": status.phase, "reason": status.reason, "message": status.message});
        check(&format!("evicted-{name}"), &seen, &[]).unwrap();
        let disruption = status.conditions.iter().flatten().find(|c| c.type_ == "DisruptionTarget");
        assert_eq!(disruption, None);
    }
    for pod in modest {
        assert_undisturbed(&tenant, &pod).await.unwrap();
    }
}
