//! The sandbox configuration; the first test compares all of it with that of a stock kubelet 1.36.

use hostlet_runtime::cri::wire::{
    Int64Value, LinuxContainerResources, NamespaceMode, NamespaceOption, PortMapping, Protocol, UserNamespace,
};
use serde_json::json;

use super::*;
use crate::cri_config::testing::{FULL_UID, full_pod, host, pod};

#[test]
fn equals_the_stock_kubelets() {
    let cgroup_parent = format!("/kubepods/burstable/pod{FULL_UID}");
    let dns = DnsConfig { servers: vec!["10.96.0.10".into()], ..Default::default() };
    let config = sandbox_config(&full_pod(), 0, &cgroup_parent, dns.clone(), &host()).unwrap();
    let texts = |pairs: &[(&str, &str)]| pairs.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect();
    let expected = PodSandboxConfig {
        metadata: Some(PodSandboxMetadata {
            name: "full".into(),
            uid: FULL_UID.into(),
            namespace: "demo".into(),
            attempt: 0,
        }),
        hostname: "myhost".into(),
        log_directory: format!("/var/log/pods/demo_full_{FULL_UID}"),
        dns_config: Some(dns),
        port_mappings: vec![
            PortMapping { container_port: 80, ..Default::default() },
            PortMapping {
                container_port: 53,
                host_port: 5353,
                protocol: Protocol::Udp.into(),
                ..Default::default()
            },
        ],
        labels: texts(&[
            ("app", "full"),
            ("io.kubernetes.pod.name", "full"),
            ("io.kubernetes.pod.namespace", "demo"),
            ("io.kubernetes.pod.uid", FULL_UID),
        ]),
        annotations: texts(&[
            ("kubernetes.io/config.seen", "2026-11-21T07:48:54.784048696Z"),
            ("kubernetes.io/config.source", "api"),
            ("note", "x"),
        ]),
        linux: Some(LinuxPodSandboxConfig {
            cgroup_parent,
            security_context: Some(LinuxSandboxSecurityContext {
                namespace_options: Some(NamespaceOption {
                    pid: NamespaceMode::Container.into(),
                    userns_options: Some(UserNamespace {
                        mode: NamespaceMode::Node.into(),
                        ..Default::default()
                    }),
                    ..Default::default()
                }),
                run_as_user: Some(Int64Value { value: 1000 }),
                run_as_group: Some(Int64Value { value: 2000 }),
                supplemental_groups: vec![3000, 4000],
                seccomp: Some(Default::default()),
                ..Default::default()
            }),
            sysctls: texts(&[("net.ipv4.ip_local_port_range", "1024 65000")]),
            overhead: Some(LinuxContainerResources::default()),
            resources: Some(LinuxContainerResources {
                cpu_period: 100_000,
                cpu_quota: 25_000,
                cpu_shares: 102,
                memory_limit_in_bytes: 64 << 20,
                ..Default::default()
            }),
        }),
        windows: None,
    };
    assert_eq!(config, expected);
}

#[test]
fn host_network_pods_have_no_hostname_of_their_own() {
    let pod = pod(json!({"hostNetwork": true, "hostname": "h", "containers": [{"name": "c"}]}));
    let config = sandbox_config(&pod, 4, "", DnsConfig::default(), &host()).unwrap();
    assert_eq!(config.hostname, "");
    assert_eq!(config.metadata.unwrap().attempt, 4);
    let options = config.linux.unwrap().security_context.unwrap().namespace_options.unwrap();
    assert_eq!(options.network(), NamespaceMode::Node);
}

#[test]
fn a_privileged_container_of_any_kind_makes_the_sandbox_privileged() {
    let privileged = |spec| {
        let config = sandbox_config(&pod(spec), 0, "", DnsConfig::default(), &host()).unwrap();
        config.linux.unwrap().security_context.unwrap().privileged
    };
    let container = json!([{"name": "p", "securityContext": {"privileged": true}}]);
    assert!(!privileged(json!({"containers": [{"name": "c"}]})));
    assert!(privileged(json!({"containers": container})));
    assert!(privileged(json!({"containers": [{"name": "c"}], "initContainers": container})));
    assert!(privileged(json!({"containers": [{"name": "c"}], "ephemeralContainers": container})));
}

#[test]
fn a_group_needs_a_user() {
    let pod = pod(json!({"containers": [{"name": "c"}], "securityContext": {"runAsGroup": 7}}));
    let config = sandbox_config(&pod, 0, "", DnsConfig::default(), &host()).unwrap();
    assert_eq!(config.linux.unwrap().security_context.unwrap().run_as_group, None);
}

#[test]
fn sysctl_names_are_normalized() {
    for (name, normal) in [
        ("kernel.shm_rmid_forced", "kernel.shm_rmid_forced"),
        ("kernel/shm_rmid_forced", "kernel.shm_rmid_forced"),
        ("net/ipv4/conf/eth0.1/rp_filter", "net.ipv4.conf.eth0/1.rp_filter"),
        ("net.ipv4.conf.eth0/1.rp_filter", "net.ipv4.conf.eth0/1.rp_filter"),
        ("plain", "plain"),
    ] {
        assert_eq!(normalize_sysctl(name), normal);
    }
}

#[test]
fn a_user_namespace_without_ids_is_not_the_hosts() {
    let pod = pod(json!({"hostUsers": false, "containers": [{"name": "c"}]}));
    let config = sandbox_config(&pod, 0, "", DnsConfig::default(), &host()).unwrap();
    let namespaces = config.linux.unwrap().security_context.unwrap().namespace_options.unwrap();
    assert_eq!(namespaces.userns_options.unwrap().mode(), NamespaceMode::Pod);
}
