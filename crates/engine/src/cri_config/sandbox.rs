//! The sandbox configuration, as sent by a stock kubelet. Pure: the same pod and host always give the same configuration.

use std::collections::HashMap;

use hostlet_observe::log::pod_dir_name;
use hostlet_pod::pod_ref;
use hostlet_pod::view::PodView;
use hostlet_runtime::cri::wire::security_profile::ProfileType;
use hostlet_runtime::cri::wire::{
    DnsConfig, LinuxPodSandboxConfig, LinuxSandboxSecurityContext, PodSandboxConfig, PodSandboxMetadata,
};
use k8s_openapi::api::core::v1::Pod;

use super::annotations::{sandbox_annotations, sandbox_labels};
use super::hostname::kernel_hostname;
use super::linux_resources::{overhead_resources, sandbox_resources};
use super::ports::port_mappings;
use super::security::{groups, namespaces, number, profile, selinux_options};
use super::{ConfigError, HostSettings};

/// The configuration of a pod's sandbox; `cgroup_parent` is the pod's cgroup in the notation of the runtime's cgroup driver.
pub(crate) fn sandbox_config(
    pod: &Pod,
    attempt: u32,
    cgroup_parent: &str,
    dns: DnsConfig,
    host: &HostSettings,
) -> Result<PodSandboxConfig, ConfigError> {
    let (api, pod) = (pod, PodView::from(pod));
    // With the host's network, the hostname is the host's.
    let hostname =
        if pod.host_network() { String::new() } else { kernel_hostname(pod, &host.cluster_domain)? };
    Ok(PodSandboxConfig {
        metadata: Some(PodSandboxMetadata {
            name: pod.name.to_owned(),
            uid: pod.uid.to_owned(),
            namespace: pod.namespace.to_owned(),
            attempt,
        }),
        hostname,
        log_directory: host.pod_logs_dir.join(pod_dir_name(&pod_ref(api))).to_string_lossy().into_owned(),
        dns_config: Some(dns),
        port_mappings: port_mappings(&pod.spec.containers),
        labels: sandbox_labels(pod),
        annotations: sandbox_annotations(pod),
        linux: Some(LinuxPodSandboxConfig {
            cgroup_parent: cgroup_parent.to_owned(),
            security_context: Some(security_context(pod)?),
            sysctls: sysctls(pod),
            overhead: Some(overhead_resources(api, host)),
            resources: Some(sandbox_resources(api, host)),
        }),
        windows: None,
    })
}

fn security_context(pod: PodView<'_>) -> Result<LinuxSandboxSecurityContext, ConfigError> {
    let context = pod.spec.security_context.as_ref();
    let run_as_user = context.and_then(|context| context.run_as_user);
    let (supplemental_groups, supplemental_groups_policy) = groups(pod)?;
    Ok(LinuxSandboxSecurityContext {
        namespace_options: Some(namespaces(pod)),
        selinux_options: context.and_then(|context| context.se_linux_options.as_ref()).map(selinux_options),
        run_as_user: run_as_user.map(number),
        // In the CRI a group without a user is an error, and the sandbox has no image with a user.
        run_as_group: run_as_user.and(context.and_then(|context| context.run_as_group)).map(number),
        supplemental_groups,
        supplemental_groups_policy,
        privileged: has_privileged_container(pod),
        // The runtime's default profile is sufficient for the pause process, independent of the containers.
        seccomp: Some(profile(ProfileType::RuntimeDefault)),
        ..Default::default()
    })
}

fn has_privileged_container(pod: PodView<'_>) -> bool {
    let ephemeral =
        pod.spec.ephemeral_containers.iter().flatten().map(|container| &container.security_context);
    let containers =
        pod.spec.containers.iter().chain(pod.init_containers()).map(|container| &container.security_context);
    containers.chain(ephemeral).flatten().any(|context| context.privileged == Some(true))
}

/// Sysctls with their kernel names.
fn sysctls(pod: PodView<'_>) -> HashMap<String, String> {
    let sysctls = pod.spec.security_context.iter().filter_map(|context| context.sysctls.as_ref()).flatten();
    sysctls.map(|sysctl| (normalize_sysctl(&sysctl.name), sysctl.value.clone())).collect()
}

/// Converts `net/ipv4/conf/eth0.1/rp_filter` to `net.ipv4.conf.eth0/1.rp_filter`: the first `/` or `.` in a name is the separator,
/// and the other character is literal (sysctl.d(5)).
fn normalize_sysctl(name: &str) -> String {
    match name.find(['.', '/']) {
        Some(first) if name[first..].starts_with('/') => {
            let swap = |c| match c {
                '/' => '.',
                '.' => '/',
                c => c,
            };
            name.chars().map(swap).collect()
        }
        _ => name.to_owned(),
    }
}

#[cfg(test)]
#[path = "sandbox_tests.rs"]
mod tests;
