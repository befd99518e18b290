//! The environment of a container: plain values, pod fields, ConfigMaps, Secrets and Services. Pure: known objects are an input. A
//! missing object is an error unless optional, never an empty value.

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;

use hostlet_pod::objects::services::ServiceVariables;
use hostlet_pod::objects::{Object, ObjectError, ObjectKind, ObjectRef, ObjectState, ObjectStates};
use hostlet_pod::view::{PodView, shown_ips};
use hostlet_volume::{container_named, resource_value};
use k8s_openapi::api::core::v1::{Container, EnvFromSource, EnvVar, EnvVarSource, FileKeySelector};

use super::expand::expand_bytes;
use super::{ConfigError, HostSettings};

/// Inputs of an environment, besides the pod and the host.
#[derive(Clone, Debug, Default)]
pub(crate) struct EnvSources<'a> {
    /// Addresses of the pod's sandbox.
    pub pod_ips: &'a [IpAddr],
    /// The states of the objects in [`env_references`].
    pub objects: ObjectStates,
    /// The values of variables from files in volumes, by the name of the variable.
    pub files: BTreeMap<String, FileValue>,
    /// Service variables; `None` before the Services are known.
    pub services: Option<ServiceVariables>,
    /// The variables of what the container was granted.
    pub granted: BTreeMap<String, String>,
}

/// What a file in a volume has for a variable (`fileKeyRef`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum FileValue {
    /// This value.
    Found(String),
    /// Nothing, or an empty value. The path is the file's on the host.
    Missing(PathBuf),
    /// The file cannot be read or is invalid.
    Invalid,
    /// The volume of this name is not mounted.
    NoVolume(String),
}

/// The objects that a container's environment refers to.
pub(crate) fn env_references(container: &Container, namespace: &str) -> Vec<ObjectRef> {
    let map = |name: &str| ObjectRef::config_map(name, namespace);
    let secret = |name: &str| ObjectRef::secret(name, namespace);
    let whole = container.env_from.iter().flatten().flat_map(|source| {
        let maps = source.config_map_ref.iter().map(|source| map(&source.name));
        maps.chain(source.secret_ref.iter().map(|source| secret(&source.name)))
    });
    let sources = container.env.iter().flatten().filter_map(|variable| variable.value_from.as_ref());
    let keys = sources.flat_map(|source| {
        let maps = source.config_map_key_ref.iter().map(|source| map(&source.name));
        maps.chain(source.secret_key_ref.iter().map(|source| secret(&source.name)))
    });
    whole.chain(keys).collect()
}

/// Variables in order of their first declaration, each with its last value. A Secret may hold any bytes.
#[derive(Debug, Default)]
pub(super) struct Environment {
    variables: Vec<(String, Vec<u8>)>,
    index: HashMap<String, usize>,
}

impl Environment {
    fn set(&mut self, name: &str, value: Vec<u8>) {
        match self.index.get(name) {
            Some(index) => self.variables[*index].1 = value,
            None => {
                self.index.insert(name.to_owned(), self.variables.len());
                self.variables.push((name.to_owned(), value));
            }
        }
    }

    /// Value of a variable, if declared.
    pub(super) fn get(&self, name: &str) -> Option<&[u8]> {
        self.index.get(name).map(|index| self.variables[*index].1.as_slice())
    }

    /// Expands a text of which the CRI takes only UTF-8, such as an argument.
    pub(super) fn expand_text(&self, text: &str) -> Result<String, ConfigError> {
        String::from_utf8(expand_bytes(text, |name| self.get(name)))
            .map_err(|_| ConfigError::NotText(text.to_owned()))
    }

    /// The variables, as name and value.
    pub(super) fn into_variables(self) -> Vec<(String, Vec<u8>)> {
        self.variables
    }
}

/// The environment of a container. References in a value see the variables declared before it; `env` overrides `envFrom`, and
/// both override service variables, and these the variables of what it was granted, which only its command and its paths can refer
/// to.
pub(super) fn environment(
    pod: PodView<'_>,
    container: &Container,
    sources: &EnvSources<'_>,
    host: &HostSettings,
) -> Result<Environment, ConfigError> {
    let services = sources.services.as_ref().ok_or(ConfigError::ServicesUnknown)?;
    let mut environment = Environment::default();
    for source in container.env_from.iter().flatten() {
        add_all_keys(pod, source, sources, &mut environment)?;
    }
    for variable in container.env.iter().flatten() {
        let value = match (variable.value.as_deref(), &variable.value_from) {
            (None | Some(""), Some(source)) => resolve(pod, container, variable, source, sources, host)?,
            (value, _) => Some(expand_bytes(value.unwrap_or_default(), |name| {
                environment.get(name).or_else(|| services.get(name).map(String::as_bytes))
            })),
        };
        if let Some(value) = value {
            environment.set(&variable.name, value);
        }
    }
    for (name, value) in services {
        if environment.get(name).is_none() {
            environment.set(name, value.clone().into_bytes());
        }
    }
    for (name, value) in &sources.granted {
        if environment.get(name).is_none() {
            environment.set(name, value.clone().into_bytes());
        }
    }
    Ok(environment)
}

/// Sets a variable for each key of an object. Every valid key is a valid variable name.
fn add_all_keys(
    pod: PodView<'_>,
    source: &EnvFromSource,
    sources: &EnvSources<'_>,
    environment: &mut Environment,
) -> Result<(), ConfigError> {
    let (object, optional) = match (&source.config_map_ref, &source.secret_ref) {
        (Some(map), _) => (ObjectRef::config_map(&map.name, pod.namespace), map.optional),
        (None, Some(secret)) => (ObjectRef::secret(&secret.name, pod.namespace), secret.optional),
        (None, None) => {
            let (variable, kind) = (String::new(), "envFrom without a source");
            return Err(ConfigError::EnvSource { variable, kind });
        }
    };
    let Some(content) = known(&object, optional, sources)? else { return Ok(()) };
    let prefix = source.prefix.as_deref().unwrap_or_default();
    let keys: Vec<&String> = match object.kind {
        ObjectKind::ConfigMap => content.text.keys().collect(),
        ObjectKind::Secret => content.binary.keys().collect(),
    };
    for key in keys {
        if let Some(value) = value_of(object.kind, &content, key) {
            environment.set(&format!("{prefix}{key}"), value);
        }
    }
    Ok(())
}

/// The value of a variable; `None` if it refers to a missing optional object or key.
fn resolve(
    pod: PodView<'_>,
    container: &Container,
    variable: &EnvVar,
    source: &EnvVarSource,
    sources: &EnvSources<'_>,
    host: &HostSettings,
) -> Result<Option<Vec<u8>>, ConfigError> {
    let unsupported = |kind| ConfigError::EnvSource { variable: variable.name.clone(), kind };
    if let Some(field) = &source.field_ref {
        Ok(Some(field_value(pod, &field.field_path, sources.pod_ips, host)?.into_bytes()))
    } else if let Some(map) = &source.config_map_key_ref {
        key_value(&ObjectRef::config_map(&map.name, pod.namespace), &map.key, map.optional, sources)
    } else if let Some(secret) = &source.secret_key_ref {
        key_value(&ObjectRef::secret(&secret.name, pod.namespace), &secret.key, secret.optional, sources)
    } else if let Some(field) = &source.resource_field_ref {
        // An ephemeral container cannot be named, but selects its own amounts by default.
        let container = match field.container_name.as_deref().filter(|name| !name.is_empty()) {
            Some(name) => container_named(pod.spec, name)?,
            None => container,
        };
        Ok(Some(resource_value(pod.spec, container, field, &host.allocatable)?.into_bytes()))
    } else if let Some(file) = &source.file_key_ref {
        Ok(file_value(variable, file, sources)?.map(String::into_bytes))
    } else {
        Err(unsupported("valueFrom without a source"))
    }
}

fn file_value(
    variable: &EnvVar,
    file: &FileKeySelector,
    sources: &EnvSources<'_>,
) -> Result<Option<String>, ConfigError> {
    match sources.files.get(&variable.name) {
        Some(FileValue::Found(value)) => Ok(Some(value.clone())),
        Some(FileValue::Missing(_)) if file.optional == Some(true) => Ok(None),
        Some(FileValue::Missing(path)) => {
            let path = path.to_string_lossy().into_owned();
            Err(ConfigError::EnvFileKey { key: file.key.clone(), path })
        }
        Some(FileValue::Invalid) => Err(ConfigError::EnvFile),
        Some(FileValue::NoVolume(volume)) => Err(ConfigError::EnvFileVolume(volume.clone())),
        None => Err(ConfigError::EnvFileVolume(file.volume_name.clone())),
    }
}

fn key_value(
    object: &ObjectRef,
    key: &str,
    optional: Option<bool>,
    sources: &EnvSources<'_>,
) -> Result<Option<Vec<u8>>, ConfigError> {
    let Some(content) = known(object, optional, sources)? else { return Ok(None) };
    let value = value_of(object.kind, &content, key);
    if value.is_none() && optional != Some(true) {
        let kind = match object.kind {
            ObjectKind::ConfigMap => "ConfigMap",
            ObjectKind::Secret => "Secret",
        };
        let (namespace, name) = (object.namespace.clone(), object.name.clone());
        return Err(ConfigError::MissingKey { key: key.to_owned(), kind, namespace, name });
    }
    Ok(value)
}

/// The data of an object; `None` if it is optional and missing.
fn known(
    object: &ObjectRef,
    optional: Option<bool>,
    sources: &EnvSources<'_>,
) -> Result<Option<Arc<Object>>, ConfigError> {
    match sources.objects.get(object) {
        Some(ObjectState::Found(content)) => Ok(Some(content.clone())),
        Some(ObjectState::Failed(ObjectError::NotFound(_))) if optional == Some(true) => Ok(None),
        Some(ObjectState::Failed(error)) => Err(error.clone().into()),
        Some(ObjectState::Pending) | None => Err(ConfigError::ObjectPending(object.clone())),
    }
}

/// A ConfigMap's `binaryData` is never used.
fn value_of(kind: ObjectKind, content: &Object, key: &str) -> Option<Vec<u8>> {
    match kind {
        ObjectKind::ConfigMap => content.text.get(key).cloned().map(String::into_bytes),
        ObjectKind::Secret => content.binary.get(key).cloned(),
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
    let node_ips = host.node_ips.now();
    let list = |ips: &[IpAddr]| ips.iter().map(IpAddr::to_string).collect::<Vec<_>>().join(",");
    match path {
        "metadata.name" => text(pod.name),
        "metadata.namespace" => text(pod.namespace),
        "metadata.uid" => text(pod.uid),
        // No scheduler sets the field of a static pod, but it runs on this node.
        "spec.nodeName" => text(pod.spec.node_name.as_deref().unwrap_or(&host.node_name)),
        "spec.serviceAccountName" => text(pod.spec.service_account_name.as_deref().unwrap_or_default()),
        "status.hostIP" => Ok(node_ips.first().ok_or(ConfigError::NoHostAddress)?.to_string()),
        "status.hostIPs" if node_ips.is_empty() => Err(ConfigError::NoHostAddress),
        "status.hostIPs" => Ok(list(&node_ips)),
        "status.podIP" => {
            let ips = shown_ips(pod.host_network(), pod_ips, &node_ips);
            Ok(ips.first().map(IpAddr::to_string).unwrap_or_default())
        }
        "status.podIPs" => Ok(list(&shown_ips(pod.host_network(), pod_ips, &node_ips))),
        _ => Err(ConfigError::FieldPath(path.to_owned())),
    }
}

#[cfg(test)]
#[path = "env_tests.rs"]
mod tests;
