//! Probes and lifecycle hooks: exactly one handler, ports, numbers, and restrictions of init containers.

use hostlet_base::STOP_SIGNALS;
use k8s_openapi::api::core::v1::{Container, HTTPGetAction, LifecycleHandler, PodSpec, Probe};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use super::network::is_port;
use super::{Errors, FieldError, FieldPath, each_invalid, list, names, one_of, required, text};

/// `httpGet.protocol` without TLS and ALPN.
const HTTP2: &str = "HTTP2";
const HTTP_PROTOCOLS: [&str; 2] = ["HTTP1", HTTP2];
const GRPC_MODES: [&str; 2] = ["Plaintext", "TLS"];
const PORT_RULE: &str = "must be between 1 and 65535, inclusive";

pub(super) fn check(container: &Container, spec: &PodSpec, path: &FieldPath, errors: &mut Errors) {
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
                check_hook(handler, spec.termination_grace_period_seconds, &path.child(field), errors);
            }
        }
        if let Some(signal) = &lifecycle.stop_signal {
            check_stop_signal(signal, spec, &path.child("stopSignal"), errors);
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
    let mut handlers = Handlers::new(path);
    if let Some(exec) = &probe.exec
        && let Some(path) = handlers.next("exec", errors)
    {
        check_command(list(&exec.command), &path, errors);
    }
    if let Some(get) = &probe.http_get
        && let Some(path) = handlers.next("httpGet", errors)
    {
        check_http_get(get, &path, errors);
    }
    if let Some(socket) = &probe.tcp_socket
        && let Some(path) = handlers.next("tcpSocket", errors)
    {
        check_port(&socket.port, &path.child("port"), errors);
    }
    if let Some(grpc) = &probe.grpc
        && let Some(path) = handlers.next("grpc", errors)
    {
        check_port(&IntOrString::Int(grpc.port), &path.child("port"), errors);
        if let Some(mode) = grpc.mode.as_deref().filter(|mode| !GRPC_MODES.contains(mode)) {
            errors.push(FieldError::unsupported(&path.child("mode"), mode, &GRPC_MODES));
        }
    }
    handlers.check_any(errors);
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

/// Checks a hook of a container in a pod with this grace period.
fn check_hook(handler: &LifecycleHandler, grace: Option<i64>, path: &FieldPath, errors: &mut Errors) {
    let mut handlers = Handlers::new(path);
    if let Some(exec) = &handler.exec
        && let Some(path) = handlers.next("exec", errors)
    {
        check_command(list(&exec.command), &path, errors);
    }
    if let Some(get) = &handler.http_get
        && let Some(path) = handlers.next("httpGet", errors)
    {
        check_http_get(get, &path, errors);
    }
    if let Some(socket) = &handler.tcp_socket
        && let Some(path) = handlers.next("tcpSocket", errors)
    {
        check_port(&socket.port, &path.child("port"), errors);
    }
    if let Some(sleep) = &handler.sleep
        && let Some(path) = handlers.next("sleep", errors)
        && let Some(grace) = grace.filter(|grace| !(0..=*grace).contains(&sleep.seconds))
    {
        let rule = format!("must be non-negative and less than terminationGracePeriodSeconds ({grace})");
        errors.push(FieldError::invalid(&path, sleep.seconds, rule));
    }
    handlers.check_any(errors);
}

/// The names of signals depend on the operating system, which the pod has to name.
fn check_stop_signal(signal: &str, spec: &PodSpec, path: &FieldPath, errors: &mut Errors) {
    let mut supported = match spec.os.as_ref().map(|os| os.name.as_str()) {
        None => {
            let why = "may not be set for containers with empty `spec.os.name`";
            errors.push(FieldError::forbidden(path, why));
            return;
        }
        Some("linux") => STOP_SIGNALS.to_vec(),
        Some("windows") => vec!["SIGKILL", "SIGTERM"],
        // Reported as such.
        Some(_) => return,
    };
    if !supported.contains(&signal) {
        supported.sort_unstable();
        errors.push(FieldError::unsupported(path, signal, &supported));
    }
}

/// The handlers of a probe or hook, of which there has to be one.
struct Handlers<'p> {
    path: &'p FieldPath,
    has_one: bool,
}

impl<'p> Handlers<'p> {
    fn new(path: &'p FieldPath) -> Self {
        Self { path, has_one: false }
    }

    /// The path of a handler, for its checks; none if it is not the first.
    fn next(&mut self, field: &str, errors: &mut Errors) -> Option<FieldPath> {
        let path = self.path.child(field);
        if std::mem::replace(&mut self.has_one, true) {
            errors.push(FieldError::forbidden(&path, "may not specify more than 1 handler type"));
            return None;
        }
        Some(path)
    }

    fn check_any(self, errors: &mut Errors) {
        if !self.has_one {
            errors.push(FieldError::required(self.path, "must specify a handler type"));
        }
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
    for header in list(&get.http_headers) {
        each_invalid(errors, &path.child("httpHeaders"), &header.name, names::http_header_name(&header.name));
    }
    match get.protocol.as_deref() {
        None => {}
        Some(protocol) if !HTTP_PROTOCOLS.contains(&protocol) => {
            errors.push(FieldError::unsupported(&path.child("protocol"), protocol, &HTTP_PROTOCOLS));
        }
        Some(HTTP2) if get.scheme.as_deref() != Some("HTTP") => {
            let rule = "is only supported with HTTP (H2C)";
            errors.push(FieldError::invalid(&path.child("protocol"), HTTP2, rule));
        }
        Some(HTTP2) if !text(&get.host).is_empty() => {
            let rule = "must be empty when `protocol` is \"HTTP2\"";
            errors.push(FieldError::invalid(&path.child("host"), text(&get.host), rule));
        }
        Some(_) => {}
    }
}

fn check_port(port: &IntOrString, path: &FieldPath, errors: &mut Errors) {
    match port {
        IntOrString::Int(number) if is_port(*number) => {}
        IntOrString::Int(number) => errors.push(FieldError::invalid(path, number, PORT_RULE)),
        IntOrString::String(name) => each_invalid(errors, path, name, names::port_name(name)),
    }
}
