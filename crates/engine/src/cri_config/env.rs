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
/// both override service variables.
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
mod tests {
    use k8s_openapi::api::core::v1::Pod;
    use serde_json::{Value, json};

    use super::*;
    use crate::cri_config::testing::{host, pod};

    fn resolved(env: Value) -> Result<Vec<(String, Vec<u8>)>, ConfigError> {
        made(json!({"env": env}))
    }

    /// The states of ConfigMap `cm`, Secret `sec`, and others.
    fn objects() -> ObjectStates {
        let text = [("k", "v"), ("other.txt", "$(k)")].map(|(key, value)| (key.to_owned(), value.to_owned()));
        let bytes = |bytes: &[u8]| bytes.to_vec();
        let binary = [("bin".to_owned(), bytes(b"x"))].into();
        let map = Object { text: text.into(), binary, ..Object::default() };
        let secrets = [("password".to_owned(), bytes(b"s3cret"))];
        let secret = Object { binary: secrets.into(), ..Object::default() };
        let image = Object { binary: [("png".to_owned(), bytes(&[0xff, 0]))].into(), ..Object::default() };
        let absent = |object: ObjectRef| {
            let error = ObjectError::not_found(&object);
            (object, ObjectState::Failed(error))
        };
        [
            (ObjectRef::config_map("cm", "ns"), ObjectState::Found(Arc::new(map))),
            (ObjectRef::secret("sec", "ns"), ObjectState::Found(Arc::new(secret))),
            (ObjectRef::secret("image", "ns"), ObjectState::Found(Arc::new(image))),
            absent(ObjectRef::config_map("none", "ns")),
            absent(ObjectRef::secret("none", "ns")),
            (
                ObjectRef::config_map("refused", "ns"),
                ObjectState::Failed(ObjectError::Forbidden("not yours".into())),
            ),
            (ObjectRef::config_map("pending", "ns"), ObjectState::Pending),
        ]
        .into()
    }

    /// The values from files of the variables FOUND, MISSING, INVALID and NOWHERE.
    fn files() -> BTreeMap<String, FileValue> {
        [
            ("FOUND", FileValue::Found("$(k)".to_owned())),
            ("MISSING", FileValue::Missing("/v/file".into())),
            ("INVALID", FileValue::Invalid),
            ("NOWHERE", FileValue::NoVolume("e".to_owned())),
        ]
        .map(|(name, value)| (name.to_owned(), value))
        .into()
    }

    #[test]
    fn variables_from_files_have_upstreams_errors() {
        let of = |name: &str, optional: bool| {
            let file = json!({"volumeName": "e", "path": "file", "key": "K", "optional": optional});
            resolved(json!([{"name": name, "valueFrom": {"fileKeyRef": file}}]))
        };
        assert_eq!(texts(of("FOUND", false)), ["FOUND=$(k)"]);
        assert_eq!(texts(of("MISSING", true)), [""; 0]);
        for (name, error) in [
            ("MISSING", "environment variable key \"K\" not found in file \"/v/file\""),
            ("INVALID", "couldn't parse env file"),
            ("NOWHERE", "cannot find the volume \"e\" referenced by FileKeyRef"),
            ("UNREAD", "cannot find the volume \"e\" referenced by FileKeyRef"),
        ] {
            assert_eq!(of(name, false).unwrap_err().to_string(), error, "{name}");
        }
    }

    /// The environment of a container with these fields, on a host without Services.
    fn made(container: Value) -> Result<Vec<(String, Vec<u8>)>, ConfigError> {
        made_with(container, ServiceVariables::new())
    }

    fn with_services(container: Value) -> Result<Vec<(String, Vec<u8>)>, ConfigError> {
        let services = [("SVC_HOST", "10.0.0.9"), ("k", "never"), ("GREETING", "never")];
        made_with(container, services.map(|(name, value)| (name.to_owned(), value.to_owned())).into())
    }

    fn made_with(
        mut container: Value,
        services: ServiceVariables,
    ) -> Result<Vec<(String, Vec<u8>)>, ConfigError> {
        container["name"] = "c".into();
        let pod: Pod = pod(json!({"containers": [container], "serviceAccountName": "sa"}));
        let ips = ["fd00::2".parse().unwrap(), "10.0.0.2".parse().unwrap()];
        let container = &pod.spec.as_ref().unwrap().containers[0];
        let mut sources =
            EnvSources { pod_ips: &ips, objects: objects(), files: files(), services: Some(services) };
        let references = env_references(container, "ns");
        sources.objects.retain(|object, _| references.contains(object));
        environment((&pod).into(), container, &sources, &host()).map(Environment::into_variables)
    }

    fn texts(variables: Result<Vec<(String, Vec<u8>)>, ConfigError>) -> Vec<String> {
        let text = |value| String::from_utf8(value).unwrap();
        variables.unwrap().into_iter().map(|(name, value)| format!("{name}={}", text(value))).collect()
    }

    fn one(source: Value) -> Result<String, ConfigError> {
        let variables = resolved(json!([{"name": "X", "valueFrom": source}]));
        variables.map(|mut variables| String::from_utf8(variables.remove(0).1).unwrap())
    }

    #[test]
    fn values_refer_to_earlier_variables_and_the_last_declaration_wins() {
        let env = json!([
            {"name": "EARLY", "value": "hi $(LATE)"},
            {"name": "LATE", "value": "x"},
            {"name": "AFTER", "value": "$(LATE) $$(LATE) $(EARLY)"},
            {"name": "LATE", "value": "$(LATE)y"},
            {"name": "EMPTY"}
        ]);
        let expected = ["EARLY=hi $(LATE)", "LATE=xy", "AFTER=x $(LATE) hi $(LATE)", "EMPTY="];
        assert_eq!(texts(resolved(env)), expected);
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
        // On the host's network, the runtime reports no address.
        let env = json!([{"name": "X", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}]);
        let spec = json!({"hostNetwork": true, "containers": [{"name": "c", "env": env}]});
        let sources = EnvSources { services: Some(ServiceVariables::default()), ..EnvSources::default() };
        let pod = pod(spec);
        let container = &pod.spec.as_ref().unwrap().containers[0];
        let made = environment((&pod).into(), container, &sources, &host()).unwrap().into_variables();
        assert_eq!(texts(Ok(made)), ["X=192.0.2.1"]);
        // Without a limit, the node's allocatable is the limit.
        assert_eq!(one(json!({"resourceFieldRef": {"resource": "limits.cpu"}})).unwrap(), "4");
        let field = |path| one(json!({"fieldRef": {"fieldPath": path}})).unwrap_err().to_string();
        assert_eq!(field("status.phase"), "field label not supported: status.phase");
        assert_eq!(field("spec.x['y']"), "field label does not support subscript: spec.x['y']");
    }

    #[test]
    fn objects_are_merged_in_order_and_overridden_by_declared_variables() {
        // The golden file's pod: a prefix, and a key that is not a shell identifier.
        let from = json!([{"prefix": "CM_", "configMapRef": {"name": "cm"}}]);
        let env = json!([{"name": "PW", "valueFrom": {"secretKeyRef": {"name": "sec", "key": "password"}}},
            {"name": "SEEN", "value": "$(CM_k) $(PW) $(CM_other.txt)"}, {"name": "CM_k", "value": "mine"}]);
        let all = ["CM_k=mine", "CM_other.txt=$(k)", "PW=s3cret", "SEEN=v s3cret $(k)"];
        assert_eq!(texts(made(json!({"envFrom": from, "env": env}))), all);
        // A later object overrides an earlier one; a missing optional object is skipped.
        let from = json!([{"configMapRef": {"name": "cm"}}, {"secretRef": {"name": "none", "optional": true}},
            {"prefix": "k", "secretRef": {"name": "sec"}}, {"configMapRef": {"name": "cm"}}]);
        let env = json!([
            {"name": "k", "valueFrom": {"configMapKeyRef": {"name": "none", "key": "x", "optional": true}}},
            {"name": "X", "valueFrom": {"secretKeyRef": {"name": "sec", "key": "x", "optional": true}}}
        ]);
        let all = ["k=v", "other.txt=$(k)", "kpassword=s3cret"];
        assert_eq!(texts(made(json!({"envFrom": from, "env": env}))), all);
    }

    #[test]
    fn an_ephemeral_container_selects_its_own_amounts() {
        let pod: Pod = pod(json!({"containers": [{"name": "app"}]}));
        let of = |name: Option<&str>| {
            let field = json!({"resource": "limits.cpu", "containerName": name});
            let env = json!([{"name": "X", "valueFrom": {"resourceFieldRef": field}}]);
            let debugger = serde_json::from_value(json!({"name": "debugger", "env": env})).unwrap();
            let sources = EnvSources { services: Some(ServiceVariables::new()), ..EnvSources::default() };
            environment((&pod).into(), &debugger, &sources, &host()).map(Environment::into_variables)
        };
        assert_eq!(texts(of(None)), ["X=4"]);
        assert_eq!(texts(of(Some("app"))), ["X=4"]);
        assert_eq!(of(Some("debugger")).unwrap_err().to_string(), "container debugger not found");
    }

    #[test]
    fn a_secrets_value_may_be_any_bytes() {
        let env = json!([{"name": "KEY", "valueFrom": {"secretKeyRef": {"name": "image", "key": "png"}}},
            {"name": "COPY", "value": "<$(KEY)>"}]);
        let made = made(json!({"envFrom": [{"secretRef": {"name": "image"}}], "env": env})).unwrap();
        let expected: [(&str, &[u8]); 3] = [("png", b"\xff\0"), ("KEY", b"\xff\0"), ("COPY", b"<\xff\0>")];
        assert_eq!(made, expected.map(|(name, value)| (name.to_owned(), value.to_vec())));
    }

    #[test]
    fn service_variables_do_not_override_declared_ones_and_can_be_referred_to() {
        let env = json!([{"name": "GREETING", "value": "$(SVC_HOST) $(k)"}, {"name": "k", "value": "mine"},
            {"name": "AFTER", "value": "$(k)"}]);
        let all = ["GREETING=10.0.0.9 never", "k=mine", "AFTER=mine", "SVC_HOST=10.0.0.9"];
        assert_eq!(texts(with_services(json!({"env": env}))), all);
        let pod = pod(json!({"containers": [{"name": "c"}]}));
        let container = &pod.spec.as_ref().unwrap().containers[0];
        let error = environment((&pod).into(), container, &EnvSources::default(), &host()).unwrap_err();
        let text = "services have not yet been read at least once, cannot construct envvars";
        assert_eq!(error.to_string(), text);
    }

    #[test]
    fn missing_objects_have_upstreams_messages() {
        let error = |source: Value| one(source).unwrap_err().to_string();
        for (source, expected) in [
            (json!({"configMapKeyRef": {"name": "none", "key": "k"}}), "configmap \"none\" not found"),
            (json!({"secretKeyRef": {"name": "none", "key": "k"}}), "secret \"none\" not found"),
            (
                json!({"configMapKeyRef": {"name": "cm", "key": "bin"}}),
                "couldn't find key bin in ConfigMap ns/cm",
            ),
            (json!({"secretKeyRef": {"name": "sec", "key": "x"}}), "couldn't find key x in Secret ns/sec"),
            // Its existence is unknown, so being optional does not help.
            (json!({"configMapKeyRef": {"name": "refused", "key": "k", "optional": true}}), "not yours"),
            (
                json!({"configMapKeyRef": {"name": "pending", "key": "k", "optional": true}}),
                "timed out waiting for the configmap \"pending\"",
            ),
            (
                json!({"resourceFieldRef": {"resource": "limits.gpu"}}),
                "unsupported container resource : limits.gpu",
            ),
        ] {
            assert_eq!(error(source), expected);
        }
        let error = made(json!({"envFrom": [{"secretRef": {"name": "none"}}]})).unwrap_err();
        assert_eq!(error.to_string(), "secret \"none\" not found");
    }
}
