//! Test fixtures: a host and pods.

use std::time::Duration;

use hostlet_base::MemoryQos;
use hostlet_base::node::NodeAddresses;
use hostlet_volume::NodeAmounts;
use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};

use super::{HostSettings, KernelFacts};

/// A node on cgroup v1 with cluster DNS and 8 GiB of memory.
pub fn host() -> HostSettings {
    HostSettings {
        root_dir: "/var/lib/kubelet".into(),
        pod_logs_dir: "/var/log/pods".into(),
        node_name: "node1".into(),
        node_ips: NodeAddresses::fixed(["192.0.2.1".parse().unwrap()]),
        cluster_domain: "cluster.local".into(),
        cluster_dns: vec!["10.96.0.10".parse().unwrap()],
        resolv_conf: Some("/etc/resolv.conf".into()),
        cpu_cfs_quota: true,
        cpu_cfs_quota_period: Duration::from_millis(100),
        seccomp_default: false,
        allocatable: NodeAmounts { milli_cpu: 4_000, memory: 8 << 30, ephemeral_storage: 100 << 30 },
        memory_capacity: 8 << 30,
        cgroup_v2: false,
        memory_qos: Some(MemoryQos::default()),
        limited_swap: false,
        swap_capacity: 0,
        single_process_oom_kill: true,
        stop_signals: true,
        runtime_name: "containerd".into(),
        kernel: KernelFacts {
            hugepage_sizes: vec!["2MB".into(), "1GB".into()],
            throttle_paths: Vec::new(),
            swap_controller: true,
            selinux: false,
        },
    }
}

/// Pod `ns/web` with a label, an annotation and the given spec.
pub fn pod(spec: Value) -> Pod {
    serde_json::from_value(json!({
        "metadata": {
            "name": "web", "namespace": "ns", "uid": "uid-1",
            "labels": {"app": "web"}, "annotations": {"a.b/c": "x['y"}
        },
        "spec": spec
    }))
    .unwrap()
}

/// UID of [`full_pod`].
pub(crate) const FULL_UID: &str = "91bfbf8e-bc69-4d82-8bd0-a527f7510d09";

/// A pod with every feature that works without an API server, whose configurations by a stock kubelet are recorded.
pub(crate) fn full_pod() -> Pod {
    let image = "registry.k8s.io/e2e-test-images/busybox:1.37.0-1";
    let wait = json!(["sh", "-c", "trap 'exit 0' TERM; while true; do sleep 0.2; done"]);
    let log = json!("/dev/termination-log");
    serde_json::from_value(json!({
        "metadata": {
            "name": "full", "namespace": "demo", "uid": FULL_UID, "labels": {"app": "full"},
            "annotations": {
                "note": "x", "kubernetes.io/config.source": "api",
                "kubernetes.io/config.seen": "2026-11-21T07:48:54.784048696Z"
            }
        },
        "spec": {
            "terminationGracePeriodSeconds": 5, "hostname": "myhost", "subdomain": "sub", "dnsPolicy": "ClusterFirst",
            "securityContext": {
                "runAsUser": 1000, "runAsGroup": 2000, "fsGroup": 3000, "supplementalGroups": [4000],
                "seccompProfile": {"type": "RuntimeDefault"},
                "sysctls": [{"name": "net.ipv4.ip_local_port_range", "value": "1024 65000"}]
            },
            "hostAliases": [{"ip": "10.1.2.3", "hostnames": ["foo", "bar"]}],
            "initContainers": [
                {"name": "init", "image": image, "command": ["sh", "-c", "echo init; id"]},
                {"name": "side", "image": image, "command": wait, "restartPolicy": "Always"}
            ],
            "containers": [{
                "name": "main", "image": image, "command": wait, "args": ["$(GREETING)", "$$(ESC)"],
                "terminationMessagePath": log, "terminationMessagePolicy": "File",
                "ports": [
                    {"name": "http", "containerPort": 80, "protocol": "TCP"},
                    {"containerPort": 53, "hostPort": 5353, "protocol": "UDP"}
                ],
                "env": [
                    {"name": "GREETING", "value": "hi $(POD)"},
                    {"name": "POD", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}
                ],
                "resources": {"requests": {"cpu": "100m", "memory": "32Mi"}, "limits": {"cpu": "250m", "memory": "64Mi"}},
                "lifecycle": {"preStop": {"exec": {"command": ["true"]}}},
                "securityContext": {
                    "capabilities": {"add": ["NET_ADMIN"], "drop": ["ALL"]},
                    "readOnlyRootFilesystem": true, "allowPrivilegeEscalation": false
                }
            }]
        }
    }))
    .unwrap()
}
