//! A pod's containers: at least one, unique names, images, policies. Calls the other checks of each container.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{Container, PodSpec};

use super::{
    Errors, FieldError, FieldPath, each_invalid, env, handlers, list, names, network, one_of, required,
    resources, security, text, volumes,
};

/// Upstream's bounds and values of restart rules.
const MOST_RESTART_RULES: usize = 20;
const MOST_EXIT_CODES: usize = 255;
const RESTART_ACTIONS: [&str; 2] = ["Restart", "RestartAllContainers"];
const EXIT_CODE_OPERATORS: [&str; 2] = ["In", "NotIn"];

pub(super) fn check_all(spec: &PodSpec, path: &FieldPath, errors: &mut Errors) {
    let containers_path = path.child("containers");
    let init_path = path.child("initContainers");
    if spec.containers.is_empty() {
        errors.push(FieldError::required(&containers_path, ""));
    }
    let mut taken = BTreeSet::new();
    for (index, container) in spec.containers.iter().enumerate() {
        check(spec, container, &containers_path.index(index), &mut taken, errors);
    }
    for (index, container) in list(&spec.init_containers).iter().enumerate() {
        let path = init_path.index(index);
        check(spec, container, &path, &mut taken, errors);
        handlers::check_init(container, &path, errors);
    }
    network::check_host_port_conflicts(&spec.containers, &containers_path, errors);
    network::check_host_port_conflicts(list(&spec.init_containers), &init_path, errors);
}

fn check<'s>(
    spec: &PodSpec,
    container: &'s Container,
    path: &FieldPath,
    taken: &mut BTreeSet<&'s str>,
    errors: &mut Errors,
) {
    let name_path = path.child("name");
    if required(errors, &name_path, &container.name) {
        each_invalid(errors, &name_path, &container.name, names::dns_label(&container.name));
        if !taken.insert(&container.name) {
            errors.push(FieldError::duplicate(&name_path, &container.name));
        }
    }
    let (image, image_path) = (text(&container.image), path.child("image"));
    if required(errors, &image_path, image) && image != image.trim() {
        errors.push(FieldError::invalid(&image_path, image, "must not have leading or trailing whitespace"));
    }
    one_of(
        errors,
        &path.child("imagePullPolicy"),
        container.image_pull_policy.as_deref(),
        &["Always", "IfNotPresent", "Never"],
    );
    one_of(
        errors,
        &path.child("terminationMessagePolicy"),
        container.termination_message_policy.as_deref(),
        &["FallbackToLogsOnError", "File"],
    );
    one_of(
        errors,
        &path.child("restartPolicy"),
        container.restart_policy.as_deref(),
        &["Always", "OnFailure", "Never"],
    );
    check_restart_rules(container, path, errors);
    network::check_ports(container, spec.host_network.unwrap_or(false), &path.child("ports"), errors);
    env::check(container, spec, path, errors);
    if let Some(requirements) = &container.resources {
        resources::check(requirements, &path.child("resources"), errors);
    }
    let policies = list(&container.resize_policy);
    resources::check_resize_policy(spec, policies, &path.child("resizePolicy"), errors);
    volumes::check_mounts(container, list(&spec.volumes), path, errors);
    handlers::check(container, spec, path, errors);
    if let Some(context) = &container.security_context {
        security::check_container(context, spec, &path.child("securityContext"), errors);
    }
}

/// Rules by exit code need a policy for the codes that no rule matches.
fn check_restart_rules(container: &Container, path: &FieldPath, errors: &mut Errors) {
    let (rules, rules_path) = (list(&container.restart_policy_rules), path.child("restartPolicyRules"));
    if !rules.is_empty() && text(&container.restart_policy).is_empty() {
        let detail = "must specify restartPolicy when restart rules are used";
        errors.push(FieldError::required(&path.child("restartPolicy"), detail));
    }
    if rules.len() > MOST_RESTART_RULES {
        errors.push(FieldError::too_many(&rules_path, rules.len(), MOST_RESTART_RULES));
    }
    for (index, rule) in rules.iter().enumerate() {
        let path = rules_path.index(index);
        if !RESTART_ACTIONS.contains(&rule.action.as_str()) {
            errors.push(FieldError::unsupported(&path.child("action"), &rule.action, &RESTART_ACTIONS));
        }
        let path = path.child("exitCodes");
        let Some(codes) = &rule.exit_codes else {
            errors.push(FieldError::required(&path, "must be specified"));
            continue;
        };
        if !EXIT_CODE_OPERATORS.contains(&codes.operator.as_str()) {
            errors.push(FieldError::unsupported(
                &path.child("operator"),
                &codes.operator,
                &EXIT_CODE_OPERATORS,
            ));
        }
        let count = list(&codes.values).len();
        if count > MOST_EXIT_CODES {
            errors.push(FieldError::too_many(&path.child("values"), count, MOST_EXIT_CODES));
        }
    }
}
