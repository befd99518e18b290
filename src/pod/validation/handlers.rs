//! Probes and lifecycle hooks: exactly one handler, ports, numbers, and restrictions of init containers.

use k8s_openapi::api::core::v1::{Container, HTTPGetAction, LifecycleHandler, Probe};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use super::network::is_port;
use super::{Errors, FieldError, FieldPath, each_invalid, list, names, one_of, required, text};

const PORT_RULE: &str = "must be between 1 and 65535, inclusive";

pub(super) fn check(container: &Container, path: &FieldPath, errors: &mut Errors) {
    for (field, probe) in [
        ("livenessProbe", &container.liveness_probe),
        ("readinessProbe", &container.readiness_probe),
        ("startupProbe", &container.startup_probe),
    ] {
        let Some(probe) = probe else { continue };
        let path = path.child(field);
        check_probe(probe, &path, errors);
        // Only readiness probes may require more than one success.
        if field != "readinessProbe" && probe.success_threshold.is_some_and(|threshold| threshold != 1) {
            let threshold = probe.success_threshold;
            errors.push(FieldError::invalid(&path.child("successThreshold"), threshold, "must be 1"));
        }
        if field == "readinessProbe" && probe.termination_grace_period_seconds.is_some() {
            let grace = probe.termination_grace_period_seconds;
            let rule = "must not be set for readinessProbes";
            errors.push(FieldError::invalid(&path.child("terminationGracePeriodSeconds"), grace, rule));
        }
    }
    if let Some(lifecycle) = &container.lifecycle {
        let path = path.child("lifecycle");
        for (field, handler) in [("postStart", &lifecycle.post_start), ("preStop", &lifecycle.pre_stop)] {
            if let Some(handler) = handler {
                check_hook(handler, &path.child(field), errors);
            }
        }
    }
}

/// Init containers other than sidecars may not have probes or hooks.
pub(super) fn check_init(container: &Container, path: &FieldPath, errors: &mut Errors) {
    if container.restart_policy.as_deref() == Some("Always") {
        return;
    }
    for (field, set) in [
        ("lifecycle", container.lifecycle.is_some()),
        ("livenessProbe", container.liveness_probe.is_some()),
        ("readinessProbe", container.readiness_probe.is_some()),
        ("startupProbe", container.startup_probe.is_some()),
    ] {
        if set {
            let why = "may not be set for init containers without restartPolicy=Always";
            errors.push(FieldError::forbidden(&path.child(field), why));
        }
    }
}

fn check_probe(probe: &Probe, path: &FieldPath, errors: &mut Errors) {
    let mut handlers = 0;
    if let Some(exec) = &probe.exec {
        handlers += 1;
        check_command(list(&exec.command), &path.child("exec"), errors);
    }
    if let Some(get) = &probe.http_get {
        handlers += 1;
        check_http_get(get, &path.child("httpGet"), errors);
    }
    if let Some(socket) = &probe.tcp_socket {
        handlers += 1;
        check_port(&socket.port, &path.child("tcpSocket").child("port"), errors);
    }
    if let Some(grpc) = &probe.grpc {
        handlers += 1;
        check_port(&IntOrString::Int(grpc.port), &path.child("grpc").child("port"), errors);
    }
    check_one_handler(handlers, path, errors);
    for (field, number) in [
        ("initialDelaySeconds", probe.initial_delay_seconds),
        ("timeoutSeconds", probe.timeout_seconds),
        ("periodSeconds", probe.period_seconds),
        ("successThreshold", probe.success_threshold),
        ("failureThreshold", probe.failure_threshold),
    ] {
        if let Some(number) = number.filter(|number| *number < 0) {
            errors.push(FieldError::invalid(
                &path.child(field),
                number,
                "must be greater than or equal to 0",
            ));
        }
    }
    if let Some(grace) = probe.termination_grace_period_seconds.filter(|grace| *grace <= 0) {
        let path = path.child("terminationGracePeriodSeconds");
        errors.push(FieldError::invalid(&path, grace, "must be greater than 0"));
    }
}

fn check_hook(handler: &LifecycleHandler, path: &FieldPath, errors: &mut Errors) {
    let mut handlers = 0;
    if let Some(exec) = &handler.exec {
        handlers += 1;
        check_command(list(&exec.command), &path.child("exec"), errors);
    }
    if let Some(get) = &handler.http_get {
        handlers += 1;
        check_http_get(get, &path.child("httpGet"), errors);
    }
    if let Some(socket) = &handler.tcp_socket {
        handlers += 1;
        check_port(&socket.port, &path.child("tcpSocket").child("port"), errors);
    }
    if let Some(sleep) = &handler.sleep {
        handlers += 1;
        if sleep.seconds < 0 {
            let path = path.child("sleep").child("seconds");
            errors.push(FieldError::invalid(&path, sleep.seconds, "must be greater than or equal to 0"));
        }
    }
    check_one_handler(handlers, path, errors);
}

fn check_one_handler(handlers: usize, path: &FieldPath, errors: &mut Errors) {
    match handlers {
        0 => errors.push(FieldError::required(path, "must specify a handler type")),
        1 => {}
        _ => errors.push(FieldError::forbidden(path, "may not specify more than 1 handler type")),
    }
}

fn check_command(command: &[String], path: &FieldPath, errors: &mut Errors) {
    if command.is_empty() {
        errors.push(FieldError::required(&path.child("command"), ""));
    }
}

fn check_http_get(get: &HTTPGetAction, path: &FieldPath, errors: &mut Errors) {
    required(errors, &path.child("path"), text(&get.path));
    check_port(&get.port, &path.child("port"), errors);
    one_of(errors, &path.child("scheme"), get.scheme.as_deref(), &["HTTP", "HTTPS"]);
}

fn check_port(port: &IntOrString, path: &FieldPath, errors: &mut Errors) {
    match port {
        IntOrString::Int(number) if is_port(*number) => {}
        IntOrString::Int(number) => errors.push(FieldError::invalid(path, number, PORT_RULE)),
        IntOrString::String(name) => each_invalid(errors, path, name, names::port_name(name)),
    }
}
