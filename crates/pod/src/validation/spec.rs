//! Scalar fields of a pod's spec: policies, names, seconds, priority. Calls the other checks in order.

use k8s_openapi::api::core::v1::{PodSpec, Toleration};

use super::{
    Errors, FieldError, FieldPath, affinity, containers, each_invalid, list, names, network, one_of,
    required, resources, security, text, volumes,
};
use crate::defaults::SYSTEM_PRIORITY_CLASSES;

/// Linux's limit of a host's name, in bytes.
const HOSTNAME_MOST: usize = 64;

pub(super) fn check(spec: &PodSpec, path: &FieldPath, errors: &mut Errors) {
    volumes::check_volumes(list(&spec.volumes), &path.child("volumes"), errors);
    containers::check_all(spec, path, errors);
    one_of(
        errors,
        &path.child("restartPolicy"),
        spec.restart_policy.as_deref(),
        &["Always", "OnFailure", "Never"],
    );
    check_seconds(spec, path, errors);
    check_names(spec, path, errors);
    check_priority(spec, path, errors);
    one_of(
        errors,
        &path.child("preemptionPolicy"),
        spec.preemption_policy.as_deref(),
        &["PreemptLowerPriority", "Never"],
    );
    if let Some(os) = &spec.os {
        let path = path.child("os").child("name");
        if required(errors, &path, &os.name) {
            one_of(errors, &path, Some(&os.name), &["linux", "windows"]);
        }
    }
    for (index, toleration) in list(&spec.tolerations).iter().enumerate() {
        check_toleration(toleration, &path.child("tolerations").index(index), errors);
    }
    let affinity = spec.affinity.as_ref().and_then(|affinity| affinity.node_affinity.as_ref());
    if let Some(affinity) = affinity {
        affinity::check(affinity, &path.child("affinity").child("nodeAffinity"), errors);
    }
    network::check_pod(spec, path, errors);
    security::check_pod(spec, path, errors);
    resources::check_whole(spec, &path.child("resources"), errors);
    if let Some(overhead) = &spec.overhead {
        resources::check_overhead(overhead, &path.child("overhead"), errors);
    }
}

fn check_seconds(spec: &PodSpec, path: &FieldPath, errors: &mut Errors) {
    if let Some(grace) = spec.termination_grace_period_seconds.filter(|grace| *grace < 0) {
        let path = path.child("terminationGracePeriodSeconds");
        errors.push(FieldError::invalid(&path, grace, "must be greater than or equal to 0"));
    }
    if let Some(deadline) = spec.active_deadline_seconds
        && !(1..=i64::from(i32::MAX)).contains(&deadline)
    {
        let path = path.child("activeDeadlineSeconds");
        let rule = format!("must be between 1 and {}, inclusive", i32::MAX);
        errors.push(FieldError::invalid(&path, deadline, rule));
    }
}

fn check_names(spec: &PodSpec, path: &FieldPath, errors: &mut Errors) {
    let subdomains = [
        ("nodeName", &spec.node_name),
        ("serviceAccountName", &spec.service_account_name),
        ("runtimeClassName", &spec.runtime_class_name),
        ("priorityClassName", &spec.priority_class_name),
    ];
    for (field, name) in subdomains {
        if !text(name).is_empty() {
            each_invalid(errors, &path.child(field), text(name), names::dns_subdomain(text(name)));
        }
    }
    for (field, name) in [("hostname", &spec.hostname), ("subdomain", &spec.subdomain)] {
        if !text(name).is_empty() {
            each_invalid(errors, &path.child(field), text(name), names::dns_label(text(name)));
        }
    }
    if let Some(name) = &spec.hostname_override {
        check_hostname_override(name, spec, &path.child("hostnameOverride"), errors);
    }
    for (key, value) in spec.node_selector.iter().flatten() {
        let path = path.child("nodeSelector");
        each_invalid(errors, &path, key, names::qualified_name(key));
        each_invalid(errors, &path, value, names::label_value(value));
    }
}

/// The whole name of the pod's host (KEP-4762), which nothing else may determine.
fn check_hostname_override(name: &str, spec: &PodSpec, path: &FieldPath, errors: &mut Errors) {
    for (other, set) in [("setHostnameAsFQDN", spec.set_hostname_as_fqdn), ("hostNetwork", spec.host_network)]
    {
        if set == Some(true) {
            errors.push(FieldError::forbidden(path, format!("may not be specified when {other} is true")));
        }
    }
    if name.len() > HOSTNAME_MOST {
        errors.push(FieldError::too_long(path, HOSTNAME_MOST));
    }
    each_invalid(errors, path, name, names::dns_subdomain(name));
}

fn check_priority(spec: &PodSpec, path: &FieldPath, errors: &mut Errors) {
    let class = text(&spec.priority_class_name);
    if class.is_empty() {
        return;
    }
    let known = SYSTEM_PRIORITY_CLASSES.iter().find(|(name, _)| *name == class);
    match (known, spec.priority) {
        (None, _) => {
            let path = path.child("priorityClassName");
            let why = "no PriorityClass with this name was found; without an API server there are only \
                system-node-critical and system-cluster-critical";
            errors.push(FieldError::forbidden(&path, why));
        }
        (Some((_, priority)), Some(set)) if set != *priority => {
            let path = path.child("priority");
            let why = format!("the priority of {class} is {priority}, not {set}");
            errors.push(FieldError::forbidden(&path, why));
        }
        (Some(_), _) => {}
    }
}

fn check_toleration(toleration: &Toleration, path: &FieldPath, errors: &mut Errors) {
    let key = text(&toleration.key);
    if !key.is_empty() {
        each_invalid(errors, &path.child("key"), key, names::qualified_name(key));
    }
    let operator = text(&toleration.operator);
    if key.is_empty() && operator != "Exists" {
        let rule =
            "operator must be Exists when `key` is empty, which means \"match all values and all keys\"";
        errors.push(FieldError::invalid(&path.child("operator"), operator, rule));
    }
    if matches!(operator, "" | "Equal") {
        let value = text(&toleration.value);
        each_invalid(errors, &path.child("operator"), value, names::label_value(value));
    }
    if operator == "Exists" && !text(&toleration.value).is_empty() {
        let rule = "value must be empty when `operator` is 'Exists'";
        errors.push(FieldError::invalid(&path.child("operator"), text(&toleration.value), rule));
    }
    one_of(errors, &path.child("operator"), Some(operator), &["Equal", "Exists", "Gt", "Lt"]);
    one_of(
        errors,
        &path.child("effect"),
        toleration.effect.as_deref(),
        &["NoSchedule", "PreferNoSchedule", "NoExecute"],
    );
    if toleration.toleration_seconds.is_some() && text(&toleration.effect) != "NoExecute" {
        let rule = "effect must be 'NoExecute' when `tolerationSeconds` is set";
        errors.push(FieldError::invalid(&path.child("effect"), text(&toleration.effect), rule));
    }
}
