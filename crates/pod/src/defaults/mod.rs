//! The defaults that the API server sets on a pod (`SetObjectDefaults_Pod` and the priority admission of Kubernetes 1.37).
//! Static pods get them here. Never fails, and is idempotent.

mod containers;
mod volumes;

use k8s_openapi::api::core::v1::{Pod, PodSpec};

/// Default grace period, in seconds.
const TERMINATION_GRACE_SECONDS: i64 = 30;

/// The built-in priority classes and their priorities. Without an API server there are no others.
pub(crate) const SYSTEM_PRIORITY_CLASSES: [(&str, i32); 2] =
    [("system-node-critical", 2_000_001_000), ("system-cluster-critical", 2_000_000_000)];

/// Sets the defaults of all unset fields.
pub fn set_defaults(pod: &mut Pod) {
    let spec = pod.spec.get_or_insert_default();
    set_spec(spec);
    let host_network = spec.host_network.unwrap_or(false);
    for container in spec.init_containers.iter_mut().flatten().chain(&mut spec.containers) {
        containers::set(container, host_network);
    }
    for volume in spec.volumes.iter_mut().flatten() {
        volumes::set(volume);
    }
}

fn set_spec(spec: &mut PodSpec) {
    // The deprecated name of the field.
    if let Some(account) = spec.service_account.clone() {
        or_text(&mut spec.service_account_name, &account);
    }
    or_text(&mut spec.restart_policy, "Always");
    or_text(&mut spec.dns_policy, "ClusterFirst");
    or_text(&mut spec.scheduler_name, "default-scheduler");
    spec.termination_grace_period_seconds.get_or_insert(TERMINATION_GRACE_SECONDS);
    spec.enable_service_links.get_or_insert(true);
    spec.security_context.get_or_insert_default();
    or_text(&mut spec.preemption_policy, "PreemptLowerPriority");
    let class = spec.priority_class_name.as_deref().unwrap_or_default();
    // A pod without a class has no priority: a static pod without one is preempted for nobody, as upstream.
    if let Some((_, priority)) = SYSTEM_PRIORITY_CLASSES.iter().find(|(name, _)| *name == class) {
        spec.priority.get_or_insert(*priority);
    }
}

/// Sets a text that is unset or empty, which are equivalent on the wire.
fn or_text(field: &mut Option<String>, default: &str) {
    if field.as_deref().unwrap_or_default().is_empty() {
        *field = Some(default.to_owned());
    }
}

/// Sets a number that is unset or zero, which are equivalent on the wire.
fn or_number(field: &mut Option<i32>, default: i32) {
    if field.unwrap_or(0) == 0 {
        *field = Some(default);
    }
}

#[cfg(test)]
mod tests;
