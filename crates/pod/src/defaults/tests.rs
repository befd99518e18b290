//! Pods before and after the API server's defaults.

use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};

use super::set_defaults;

fn defaulted(spec: Value) -> Value {
    let mut pod: Pod =
        serde_json::from_value(json!({"apiVersion": "v1", "kind": "Pod", "spec": spec})).unwrap();
    set_defaults(&mut pod);
    let mut again = pod.clone();
    set_defaults(&mut again);
    assert_eq!(pod, again, "filling in twice must change nothing");
    serde_json::to_value(pod.spec).unwrap()
}

/// What Kubernetes 1.37 makes of a minimal pod.
#[test]
fn a_minimal_pod_gets_the_api_servers_defaults() {
    assert_eq!(
        defaulted(json!({"containers": [{"name": "c", "image": "registry.k8s.io/pause:3.10.2"}]})),
        json!({
            "containers": [{
                "image": "registry.k8s.io/pause:3.10.2",
                "imagePullPolicy": "IfNotPresent",
                "name": "c",
                "resources": {},
                "terminationMessagePath": "/dev/termination-log",
                "terminationMessagePolicy": "File"
            }],
            "dnsPolicy": "ClusterFirst",
            "enableServiceLinks": true,
            "preemptionPolicy": "PreemptLowerPriority",
            "restartPolicy": "Always",
            "schedulerName": "default-scheduler",
            "securityContext": {},
            "terminationGracePeriodSeconds": 30
        })
    );
}

#[test]
fn what_is_set_stays() {
    let spec = defaulted(json!({"containers": [], "restartPolicy": "Never", "dnsPolicy": "None",
        "terminationGracePeriodSeconds": 0, "enableServiceLinks": false, "schedulerName": "x", "priority": 7}));
    assert_eq!(spec["restartPolicy"], "Never");
    assert_eq!(spec["dnsPolicy"], "None");
    assert_eq!(spec["terminationGracePeriodSeconds"], 0);
    assert_eq!(spec["enableServiceLinks"], false);
    assert_eq!(spec["schedulerName"], "x");
    assert_eq!(spec["priority"], 7);
}

#[test]
fn the_old_name_of_the_service_account_counts_if_the_new_one_is_unset() {
    let of = |spec| defaulted(spec)["serviceAccountName"].clone();
    assert_eq!(of(json!({"containers": [], "serviceAccount": "old"})), "old");
    assert_eq!(of(json!({"containers": [], "serviceAccount": "old", "serviceAccountName": "new"})), "new");
    assert_eq!(of(json!({"containers": []})), Value::Null);
}

#[test]
fn the_system_classes_have_their_priorities() {
    for (class, priority) in [
        ("system-node-critical", json!(2_000_001_000)),
        ("system-cluster-critical", json!(2_000_000_000)),
        ("mine", Value::Null),
    ] {
        assert_eq!(defaulted(json!({"containers": [], "priorityClassName": class}))["priority"], priority);
    }
}

#[test]
fn ports_take_the_host_port_only_on_the_host_network() {
    let ports = json!([{"containerPort": 80}, {"containerPort": 53, "hostPort": 5353, "protocol": "UDP"}]);
    let with = |host: bool| {
        let spec = json!({"hostNetwork": host, "containers": [{"name": "c", "ports": ports}]});
        defaulted(spec)["containers"][0]["ports"].clone()
    };
    assert_eq!(
        with(false),
        json!([{"containerPort": 80, "protocol": "TCP"},
            {"containerPort": 53, "hostPort": 5353, "protocol": "UDP"}])
    );
    assert_eq!(with(true)[0], json!({"containerPort": 80, "hostPort": 80, "protocol": "TCP"}));
    assert_eq!(with(true)[1]["hostPort"], 5353);
}

#[test]
fn unset_requests_default_to_limits() {
    let spec = defaulted(json!({"containers": [{"name": "c", "resources":
        {"limits": {"cpu": "1", "memory": "64Mi"}, "requests": {"cpu": "100m"}}}]}));
    assert_eq!(spec["containers"][0]["resources"]["requests"], json!({"cpu": "100m", "memory": "64Mi"}));
}

#[test]
fn probes_references_and_volumes_get_defaults() {
    let spec = defaulted(json!({
        "containers": [{
            "name": "c",
            "env": [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}],
            "livenessProbe": {"httpGet": {"port": 80}, "periodSeconds": 2}
        }],
        "volumes": [{"name": "a"}, {"name": "s", "secret": {"secretName": "s"}}, {"name": "h", "hostPath": {"path": "/"}},
            {"name": "i", "image": {"reference": "reg:5000/model"}}, {"name": "j", "image": {"reference": "model:1"}}]
    }));
    let container = &spec["containers"][0];
    assert_eq!(container["env"][0]["valueFrom"]["fieldRef"]["apiVersion"], "v1");
    assert_eq!(
        container["livenessProbe"],
        json!({"httpGet": {"path": "/", "port": 80, "scheme": "HTTP"}, "timeoutSeconds": 1, "periodSeconds": 2,
            "successThreshold": 1, "failureThreshold": 3})
    );
    assert_eq!(spec["volumes"][0]["emptyDir"], json!({}));
    assert_eq!(spec["volumes"][1]["secret"]["defaultMode"], 0o644);
    assert_eq!(spec["volumes"][2]["hostPath"]["type"], "");
    assert_eq!(spec["volumes"][3]["image"]["pullPolicy"], "Always");
    assert_eq!(spec["volumes"][4]["image"]["pullPolicy"], "IfNotPresent");
}
