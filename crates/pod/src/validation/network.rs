//! Ports and their conflicts, DNS, and entries of `/etc/hosts`.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{Container, ContainerPort, PodDNSConfig, PodSpec};

use super::{Errors, FieldError, FieldPath, each_invalid, list, names, one_of, required, text};

const PORT_RULE: &str = "must be between 1 and 65535, inclusive";
const IP_RULE: &str = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)";
/// Limits of `resolv.conf(5)`, and the API server's limits on search domains.
const NAMESERVERS_MOST: usize = 3;
const SEARCHES_MOST: usize = 32;
const SEARCH_CHARACTERS_MOST: usize = 2048;

/// Whether a number is a valid port.
pub(super) fn is_port(port: i32) -> bool {
    (1..=65535).contains(&port)
}

pub(super) fn check_ports(container: &Container, host_network: bool, path: &FieldPath, errors: &mut Errors) {
    let mut taken = BTreeSet::new();
    for (index, port) in list(&container.ports).iter().enumerate() {
        let path = path.index(index);
        let name = text(&port.name);
        if !name.is_empty() {
            each_invalid(errors, &path.child("name"), name, names::port_name(name));
            if !taken.insert(name) {
                errors.push(FieldError::duplicate(&path.child("name"), name));
            }
        }
        check_numbers(port, host_network, &path, errors);
        one_of(errors, &path.child("protocol"), port.protocol.as_deref(), &["SCTP", "TCP", "UDP"]);
    }
}

fn check_numbers(port: &ContainerPort, host_network: bool, path: &FieldPath, errors: &mut Errors) {
    if port.container_port == 0 {
        errors.push(FieldError::required(&path.child("containerPort"), ""));
    } else if !is_port(port.container_port) {
        errors.push(FieldError::invalid(&path.child("containerPort"), port.container_port, PORT_RULE));
    }
    let host_port = port.host_port.unwrap_or(0);
    if host_port != 0 && !is_port(host_port) {
        errors.push(FieldError::invalid(&path.child("hostPort"), host_port, PORT_RULE));
    }
    if host_network && host_port != port.container_port {
        let rule = "must match `containerPort` when `hostNetwork` is true";
        errors.push(FieldError::invalid(&path.child("hostPort"), host_port, rule));
    }
}

/// Checks that no two ports of a pod use the same host port.
pub(super) fn check_host_port_conflicts(containers: &[Container], path: &FieldPath, errors: &mut Errors) {
    let mut taken = BTreeSet::new();
    for (outer, container) in containers.iter().enumerate() {
        for (inner, port) in list(&container.ports).iter().enumerate() {
            let host_port = port.host_port.unwrap_or(0);
            if host_port == 0 {
                continue;
            }
            let key = format!("{}/{}/{host_port}", text(&port.protocol), text(&port.host_ip));
            if !taken.insert(key.clone()) {
                let path = path.index(outer).child("ports").index(inner).child("hostPort");
                errors.push(FieldError::duplicate(&path, key));
            }
        }
    }
}

pub(super) fn check_pod(spec: &PodSpec, path: &FieldPath, errors: &mut Errors) {
    one_of(
        errors,
        &path.child("dnsPolicy"),
        spec.dns_policy.as_deref(),
        &["ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"],
    );
    check_dns(spec, &path.child("dnsConfig"), errors);
    for (index, alias) in list(&spec.host_aliases).iter().enumerate() {
        let path = path.child("hostAliases").index(index);
        if !names::is_ip(&alias.ip) {
            errors.push(FieldError::invalid(&path.child("ip"), &alias.ip, IP_RULE));
        }
        for (index, name) in list(&alias.hostnames).iter().enumerate() {
            let path = path.child("hostnames").index(index);
            each_invalid(errors, &path, name, names::dns_subdomain(name));
        }
    }
}

fn check_dns(spec: &PodSpec, path: &FieldPath, errors: &mut Errors) {
    if text(&spec.dns_policy) == "None" {
        let why = "must provide at least one DNS nameserver when `dnsPolicy` is None";
        match &spec.dns_config {
            None => {
                errors.push(FieldError::required(path, "must provide `dnsConfig` when `dnsPolicy` is None"))
            }
            Some(config) if list(&config.nameservers).is_empty() => {
                errors.push(FieldError::required(&path.child("nameservers"), why));
            }
            Some(_) => {}
        }
    }
    if let Some(config) = &spec.dns_config {
        check_dns_config(config, path, errors);
    }
}

fn check_dns_config(config: &PodDNSConfig, path: &FieldPath, errors: &mut Errors) {
    let nameservers = list(&config.nameservers);
    let path_of = |field: &str| path.child(field);
    if nameservers.len() > NAMESERVERS_MOST {
        errors.push(FieldError::too_many(&path_of("nameservers"), nameservers.len(), NAMESERVERS_MOST));
    }
    for (index, server) in nameservers.iter().enumerate().filter(|(_, server)| !names::is_ip(server)) {
        let path = path_of("nameservers").index(index);
        errors.push(FieldError::invalid(&path, server, IP_RULE));
    }
    let searches = list(&config.searches);
    if searches.len() > SEARCHES_MOST {
        errors.push(FieldError::too_many(&path_of("searches"), searches.len(), SEARCHES_MOST));
    }
    if searches.iter().map(|domain| domain.len() + 1).sum::<usize>() > SEARCH_CHARACTERS_MOST + 1 {
        errors.push(FieldError::too_long(&path_of("searches"), SEARCH_CHARACTERS_MOST));
    }
    for (index, domain) in searches.iter().enumerate().filter(|(_, domain)| domain.as_str() != ".") {
        // With or without the final dot; underscores are permitted since Kubernetes 1.34.
        let plain = domain.strip_suffix('.').unwrap_or(domain).replace('_', "x");
        let path = path_of("searches").index(index);
        each_invalid(errors, &path, domain, names::dns_subdomain(&plain));
    }
    for (index, option) in list(&config.options).iter().enumerate() {
        required(errors, &path_of("options").index(index).child("name"), text(&option.name));
    }
}
