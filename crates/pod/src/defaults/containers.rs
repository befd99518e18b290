//! Defaults of one container: pull policy, termination message, ports, requests, probes, references.

use hostlet_base::ImageReference;
use k8s_openapi::api::core::v1::{Container, EnvVar, HTTPGetAction, Lifecycle, Probe, ResourceRequirements};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

use super::{or_number, or_text};

pub(super) fn set(container: &mut Container, host_network: bool) {
    let image = container.image.as_deref().unwrap_or_default();
    or_text(&mut container.image_pull_policy, default_pull_policy(image));
    or_text(&mut container.termination_message_path, "/dev/termination-log");
    or_text(&mut container.termination_message_policy, "File");
    set_requests(container.resources.get_or_insert_default());
    for port in container.ports.iter_mut().flatten() {
        or_text(&mut port.protocol, "TCP");
        if host_network && port.host_port.unwrap_or(0) == 0 {
            port.host_port = Some(port.container_port);
        }
    }
    for variable in container.env.iter_mut().flatten() {
        set_env(variable);
    }
    let probes =
        [&mut container.liveness_probe, &mut container.readiness_probe, &mut container.startup_probe];
    for probe in probes.into_iter().flatten() {
        set_probe(probe);
    }
    if let Some(lifecycle) = &mut container.lifecycle {
        set_lifecycle(lifecycle);
    }
}

/// `Always` for `:latest` or an image with neither tag nor digest, otherwise `IfNotPresent`, also for what is no reference.
pub(super) fn default_pull_policy(image: &str) -> &'static str {
    match ImageReference::parse(image) {
        Ok(ImageReference { tag: Some("latest"), .. } | ImageReference { tag: None, digest: None, .. }) => {
            "Always"
        }
        Ok(_) | Err(_) => "IfNotPresent",
    }
}

fn set_requests(resources: &mut ResourceRequirements) {
    let Some(limits) = &resources.limits else { return };
    let requests = resources.requests.get_or_insert_default();
    for (name, limit) in limits {
        requests.entry(name.clone()).or_insert_with(|| limit.clone());
    }
}

fn set_env(variable: &mut EnvVar) {
    let Some(source) = &mut variable.value_from else { return };
    if let Some(field) = &mut source.field_ref {
        or_text(&mut field.api_version, "v1");
    }
    if let Some(resource) = &mut source.resource_field_ref {
        resource.divisor.get_or_insert_with(|| Quantity("0".to_owned()));
    }
}

fn set_probe(probe: &mut Probe) {
    or_number(&mut probe.timeout_seconds, 1);
    or_number(&mut probe.period_seconds, 10);
    or_number(&mut probe.success_threshold, 1);
    or_number(&mut probe.failure_threshold, 3);
    if let Some(get) = &mut probe.http_get {
        set_http_get(get);
    }
    if let Some(grpc) = &mut probe.grpc {
        grpc.service.get_or_insert_default();
    }
}

fn set_lifecycle(lifecycle: &mut Lifecycle) {
    for handler in [&mut lifecycle.post_start, &mut lifecycle.pre_stop].into_iter().flatten() {
        if let Some(get) = &mut handler.http_get {
            set_http_get(get);
        }
    }
}

fn set_http_get(get: &mut HTTPGetAction) {
    or_text(&mut get.path, "/");
    or_text(&mut get.scheme, "HTTP");
}

#[cfg(test)]
mod tests {
    use super::default_pull_policy;

    #[test]
    fn only_mutable_references_are_always_pulled() {
        let digest = format!("sha256:{}", "0".repeat(64));
        let with_digest = |name: &str| format!("{name}@{digest}");
        let latest = with_digest("a:latest");
        for image in ["busybox", "busybox:latest", "reg:5000/busybox", "reg:5000/a/b:latest", &latest] {
            assert_eq!(default_pull_policy(image), "Always", "{image}");
        }
        let digests = ["busybox", "reg:5000/a", "a:1"].map(with_digest);
        let tags = ["busybox:1", "reg:5000/busybox:1", "", "Busybox", "a b"];
        for image in tags.into_iter().chain(digests.iter().map(String::as_str)) {
            assert_eq!(default_pull_policy(image), "IfNotPresent", "{image}");
        }
    }
}
