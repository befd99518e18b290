//! Environment of a container: plain values and the pod's own fields. Alone on a host there are no services, ConfigMaps
//! or Secrets; asking for one is an error, never an empty value. Pure.

use std::collections::HashMap;
use std::net::IpAddr;

use k8s_openapi::api::core::v1::{Container, EnvFromSource, EnvVar, EnvVarSource};

use super::expand::expand;
use super::{ConfigError, HostSettings};
use crate::pod::view::{PodView, primary_first};

/// Variables in the order they were first declared, each name once with the value declared last.
#[derive(Debug, Default)]
pub(super) struct Environment {
    variables: Vec<(String, String)>,
    index: HashMap<String, usize>,
}

impl Environment {
    fn set(&mut self, name: &str, value: String) {
        match self.index.get(name) {
            Some(index) => self.variables[*index].1 = value,
            None => {
                self.index.insert(name.to_owned(), self.variables.len());
                self.variables.push((name.to_owned(), value));
            }
        }
    }

    /// Value of a variable, if declared.
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.index.get(name).map(|index| self.variables[*index].1.as_str())
    }

    /// The variables, as name and value.
    pub(super) fn into_variables(self) -> Vec<(String, String)> {
        self.variables
    }
}

/// Environment of a container. References in a value see the variables declared before it.
pub(super) fn environment(
    pod: PodView<'_>,
    container: &Container,
    pod_ips: &[IpAddr],
    host: &HostSettings,
) -> Result<Environment, ConfigError> {
    if let Some(source) = container.env_from.iter().flatten().next() {
        return Err(unavailable(pod, source));
    }
    let mut environment = Environment::default();
    for variable in container.env.iter().flatten() {
        let value = match (variable.value.as_deref(), &variable.value_from) {
            (None | Some(""), Some(source)) => resolve(pod, variable, source, pod_ips, host)?,
            (value, _) => expand(value.unwrap_or_default(), |name| environment.get(name)),
        };
        environment.set(&variable.name, value);
    }
    Ok(environment)
}

/// Optional sources are refused too: without an API server nobody knows whether the object exists.
fn unavailable(pod: PodView<'_>, source: &EnvFromSource) -> ConfigError {
    let namespace = pod.namespace.to_owned();
    match (&source.config_map_ref, &source.secret_ref) {
        (Some(map), _) => ConfigError::ConfigMap { namespace, name: map.name.clone() },
        (None, Some(secret)) => ConfigError::Secret { namespace, name: secret.name.clone() },
        (None, None) => ConfigError::EnvSource { variable: String::new(), kind: "envFrom without a source" },
    }
}

fn resolve(
    pod: PodView<'_>,
    variable: &EnvVar,
    source: &EnvVarSource,
    pod_ips: &[IpAddr],
    host: &HostSettings,
) -> Result<String, ConfigError> {
    let namespace = || pod.namespace.to_owned();
    let unsupported = |kind| ConfigError::EnvSource { variable: variable.name.clone(), kind };
    if let Some(field) = &source.field_ref {
        field_value(pod, &field.field_path, pod_ips, host)
    } else if let Some(map) = &source.config_map_key_ref {
        Err(ConfigError::ConfigMap { namespace: namespace(), name: map.name.clone() })
    } else if let Some(secret) = &source.secret_key_ref {
        Err(ConfigError::Secret { namespace: namespace(), name: secret.name.clone() })
    } else if source.resource_field_ref.is_some() {
        Err(unsupported("resourceFieldRef"))
    } else if source.file_key_ref.is_some() {
        Err(unsupported("fileKeyRef"))
    } else {
        Err(unsupported("valueFrom without a source"))
    }
}

/// Value of a field of the downward API (Kubernetes docs, "Downward API").
fn field_value(
    pod: PodView<'_>,
    path: &str,
    pod_ips: &[IpAddr],
    host: &HostSettings,
) -> Result<String, ConfigError> {
    if let Some((map, key)) = path.strip_suffix("']").and_then(|path| path.split_once("['")) {
        let map = match map {
            "metadata.labels" => &pod.meta.labels,
            "metadata.annotations" => &pod.meta.annotations,
            _ => return Err(ConfigError::FieldSubscript(path.to_owned())),
        };
        return Ok(map.as_ref().and_then(|map| map.get(key)).cloned().unwrap_or_default());
    }
    let text = |value: &str| Ok(value.to_owned());
    let list = |ips: &[IpAddr]| ips.iter().map(IpAddr::to_string).collect::<Vec<_>>().join(",");
    match path {
        "metadata.name" => text(pod.name),
        "metadata.namespace" => text(pod.namespace),
        "metadata.uid" => text(pod.uid),
        // Of a manifest the field is not set by a scheduler; the pod runs on this node all the same.
        "spec.nodeName" => text(pod.spec.node_name.as_deref().unwrap_or(&host.node_name)),
        "spec.serviceAccountName" => text(pod.spec.service_account_name.as_deref().unwrap_or_default()),
        "status.hostIP" => Ok(host.node_ips.first().ok_or(ConfigError::NoHostAddress)?.to_string()),
        "status.hostIPs" if host.node_ips.is_empty() => Err(ConfigError::NoHostAddress),
        "status.hostIPs" => Ok(list(&host.node_ips)),
        "status.podIP" => {
            Ok(primary_first(pod_ips, &host.node_ips).first().map(IpAddr::to_string).unwrap_or_default())
        }
        "status.podIPs" => Ok(list(&primary_first(pod_ips, &host.node_ips))),
        _ => Err(ConfigError::FieldPath(path.to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Pod;
    use serde_json::{Value, json};

    use super::*;
    use crate::pod::container::testing::{host, pod};

    fn resolved(env: Value) -> Result<Vec<(String, String)>, ConfigError> {
        let pod: Pod = pod(json!({"containers": [{"name": "c", "env": env}], "serviceAccountName": "sa"}));
        let ips = ["fd00::2".parse().unwrap(), "10.0.0.2".parse().unwrap()];
        let container = &pod.spec.as_ref().unwrap().containers[0];
        environment((&pod).into(), container, &ips, &host()).map(Environment::into_variables)
    }

    fn one(source: Value) -> Result<String, ConfigError> {
        resolved(json!([{"name": "X", "valueFrom": source}])).map(|mut variables| variables.remove(0).1)
    }

    #[test]
    fn values_see_what_was_declared_before_and_the_last_declaration_wins() {
        let env = json!([
            {"name": "EARLY", "value": "hi $(LATE)"},
            {"name": "LATE", "value": "x"},
            {"name": "AFTER", "value": "$(LATE) $$(LATE) $(EARLY)"},
            {"name": "LATE", "value": "$(LATE)y"},
            {"name": "EMPTY"}
        ]);
        let expected =
            [("EARLY", "hi $(LATE)"), ("LATE", "xy"), ("AFTER", "x $(LATE) hi $(LATE)"), ("EMPTY", "")];
        assert_eq!(resolved(env).unwrap(), expected.map(|(name, value)| (name.to_owned(), value.to_owned())));
    }

    #[test]
    fn fields_of_the_pod() {
        for (path, value) in [
            ("metadata.name", "web"),
            ("metadata.namespace", "ns"),
            ("metadata.uid", "uid-1"),
            ("metadata.labels['app']", "web"),
            ("metadata.labels['none']", ""),
            ("metadata.annotations['a.b/c']", "x['y"),
            ("spec.nodeName", "node1"),
            ("spec.serviceAccountName", "sa"),
            ("status.hostIP", "192.0.2.1"),
            ("status.hostIPs", "192.0.2.1"),
            ("status.podIP", "10.0.0.2"),
            ("status.podIPs", "10.0.0.2,fd00::2"),
        ] {
            assert_eq!(one(json!({"fieldRef": {"fieldPath": path}})).unwrap(), value, "{path}");
        }
        let field = |path| one(json!({"fieldRef": {"fieldPath": path}})).unwrap_err().to_string();
        assert_eq!(field("status.phase"), "field label not supported: status.phase");
        assert_eq!(field("spec.x['y']"), "field label does not support subscript: spec.x['y']");
    }

    #[test]
    fn sources_that_need_an_api_server_are_refused() {
        let error =
            one(json!({"configMapKeyRef": {"name": "cm", "key": "k", "optional": true}})).unwrap_err();
        assert_eq!(error.to_string(), "couldn't get configMap ns/cm, no kubeClient defined");
        let error = one(json!({"secretKeyRef": {"name": "s", "key": "k"}})).unwrap_err();
        assert_eq!(error.to_string(), "couldn't get secret ns/s, no kubeClient defined");
        let error = one(json!({"resourceFieldRef": {"resource": "limits.cpu"}})).unwrap_err();
        assert_eq!(error.to_string(), "environment variable \"X\": resourceFieldRef is not supported");
        let pod = pod(json!({"containers": [{"name": "c", "envFrom": [{"secretRef": {"name": "s"}}]}]}));
        let container = &pod.spec.as_ref().unwrap().containers[0];
        let error = environment((&pod).into(), container, &[], &host()).unwrap_err();
        assert_eq!(error.to_string(), "couldn't get secret ns/s, no kubeClient defined");
    }
}
