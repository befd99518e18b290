//! Which sysctls a pod may set (Kubernetes docs, "Using sysctls in a Kubernetes Cluster").

use k8s_openapi::api::core::v1::Pod;

/// Sysctls that are namespaced and isolated between pods, which every pod may set.
const SAFE: [&str; 14] = [
    "kernel.shm_rmid_forced",
    "net.ipv4.ip_local_port_range",
    "net.ipv4.tcp_syncookies",
    "net.ipv4.ping_group_range",
    "net.ipv4.ip_unprivileged_port_start",
    "net.ipv4.ip_local_reserved_ports",
    "net.ipv4.tcp_keepalive_time",
    "net.ipv4.tcp_fin_timeout",
    "net.ipv4.tcp_keepalive_intvl",
    "net.ipv4.tcp_keepalive_probes",
    "net.ipv4.tcp_rmem",
    "net.ipv4.tcp_wmem",
    "net.ipv4.tcp_slow_start_after_idle",
    "net.ipv4.tcp_notsent_lowat",
];

/// Describes the first sysctl that the pod may not set; `None` if it may set them all. `allowed` are patterns of permitted
/// unsafe sysctls (`allowedUnsafeSysctls`).
pub(super) fn forbidden_sysctl(pod: &Pod, allowed: &[String]) -> Option<String> {
    let spec = pod.spec.as_ref()?;
    let sysctls = spec.security_context.as_ref()?.sysctls.as_ref()?;
    sysctls.iter().find_map(|sysctl| {
        let name = sysctl.name.replace('/', ".");
        if !SAFE.contains(&name.as_str()) && !allowed.iter().any(|pattern| matches(pattern, &name)) {
            return Some(format!("forbidden sysctl: {name:?} not allowlisted"));
        }
        let is_net = name.starts_with("net.");
        if is_net && spec.host_network.unwrap_or(false) {
            return Some(format!("forbidden sysctl: {name:?} not allowed with host net enabled"));
        }
        if !is_net && spec.host_ipc.unwrap_or(false) {
            return Some(format!("forbidden sysctl: {name:?} not allowed with host ipc enabled"));
        }
        None
    })
}

fn matches(pattern: &str, name: &str) -> bool {
    let pattern = pattern.replace('/', ".");
    match pattern.strip_suffix('*') {
        Some(start) => name.starts_with(start),
        None => pattern == name,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn forbidden(name: &str, spec: serde_json::Value, allowed: &[&str]) -> Option<String> {
        let mut pod: Pod = serde_json::from_value(json!({"metadata": {}, "spec": spec})).unwrap();
        let context = json!({"sysctls": [{"name": name, "value": "1"}]});
        pod.spec.as_mut().unwrap().security_context = Some(serde_json::from_value(context).unwrap());
        let allowed: Vec<String> = allowed.iter().map(|a| (*a).to_owned()).collect();
        forbidden_sysctl(&pod, &allowed)
    }

    #[test]
    fn safe_and_allowed_sysctls_may_be_set() {
        let spec = || json!({"containers": []});
        assert_eq!(forbidden("net.ipv4.tcp_syncookies", spec(), &[]), None);
        assert_eq!(forbidden("net/ipv4/tcp_syncookies", spec(), &[]), None);
        let message = forbidden("kernel.msgmax", spec(), &["kernel.shm*"]).unwrap();
        assert_eq!(message, "forbidden sysctl: \"kernel.msgmax\" not allowlisted");
        assert_eq!(forbidden("kernel.msgmax", spec(), &["kernel.msg*"]), None);
        assert_eq!(forbidden("kernel.msgmax", spec(), &["kernel.msgmax"]), None);
    }

    #[test]
    fn sysctls_of_a_host_namespace_are_forbidden() {
        let net = json!({"containers": [], "hostNetwork": true});
        assert!(forbidden("net.ipv4.tcp_rmem", net.clone(), &[]).unwrap().contains("host net"));
        assert_eq!(forbidden("kernel.shm_rmid_forced", net, &[]), None);
        let ipc = json!({"containers": [], "hostIPC": true});
        assert!(forbidden("kernel.shm_rmid_forced", ipc, &[]).unwrap().contains("host ipc"));
    }
}
