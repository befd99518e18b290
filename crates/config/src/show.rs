//! The effective configuration with all defaults, as documents that `--config` accepts.

use std::collections::BTreeSet;
use std::fmt;

use hostlet_base::json;
use serde::Serialize;
use serde_json::{Map, Value};

use super::hostlet::HostletConfiguration;
use super::merge::without_nulls;
use super::wire::KubeletConfiguration;

/// The effective configuration. `Display` writes two YAML documents that `--config` accepts.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct EffectiveConfig {
    kubelet: Value,
    hostlet: Value,
    /// Digest of the configuration of credential providers, which is in files of its own.
    providers: Option<String>,
}

impl EffectiveConfig {
    pub(super) fn new(kubelet: &KubeletConfiguration, hostlet: &HostletConfiguration) -> Self {
        Self { kubelet: value(kubelet), hostlet: value(hostlet), providers: None }
    }

    /// The same with credential providers.
    pub(super) fn with_providers(self, digest: Option<String>) -> Self {
        Self { providers: digest, ..self }
    }

    /// The KubeletConfiguration, without unset fields.
    pub fn kubelet(&self) -> &Value {
        &self.kubelet
    }

    /// The HostletConfiguration, without unset fields.
    pub fn hostlet(&self) -> &Value {
        &self.hostlet
    }

    /// The same without the values that may be secrets, for the log.
    pub fn masked(&self) -> Self {
        let mut masked = self.clone();
        let headers = masked.kubelet.get_mut("staticPodURLHeader").and_then(Value::as_object_mut);
        for (_, values) in headers.into_iter().flatten() {
            *values = Value::from(vec!["<masked>"]);
        }
        masked
    }

    /// The paths of the fields whose values differ in `new`, such as `logging.verbosity`, in order. Lists are compared whole, as are
    /// the files of a flag.
    pub fn changes(&self, new: &Self) -> Vec<String> {
        let mut paths = Vec::new();
        differences("", &self.kubelet, &new.kubelet, &mut paths);
        differences("", &self.hostlet, &new.hostlet, &mut paths);
        if self.providers != new.providers {
            paths.push("--image-credential-provider-config".to_owned());
        }
        paths
    }
}

fn differences(path: &str, old: &Value, new: &Value, paths: &mut Vec<String>) {
    if let (Value::Object(before), Value::Object(after)) = (old, new) {
        let names: BTreeSet<&String> = before.keys().chain(after.keys()).collect();
        for name in names {
            let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
            let of = |fields: &Map<String, Value>| fields.get(name).cloned().unwrap_or_default();
            differences(&path, &of(before), &of(after), paths);
        }
    } else if old != new {
        paths.push(path.to_owned());
    }
}

/// The document as JSON, without unset fields.
fn value(document: &impl Serialize) -> Value {
    // Plain data with text keys, which always converts to JSON.
    without_nulls(json::to_value(document).unwrap_or_default())
}

impl fmt::Display for EffectiveConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_document(f, &self.kubelet)?;
        f.write_str("---\n")?;
        write_document(f, &self.hostlet)
    }
}

/// Writes one document, beginning with `apiVersion` and `kind`.
fn write_document(f: &mut fmt::Formatter<'_>, document: &Value) -> fmt::Result {
    let mut rest = document.clone();
    for name in ["apiVersion", "kind"] {
        if let Some(Value::String(text)) = rest.as_object_mut().and_then(|fields| fields.remove(name)) {
            writeln!(f, "{name}: {text}")?;
        }
    }
    let text = serde_saphyr::to_string(&rest).map_err(|_| fmt::Error)?;
    f.write_str(&text)?;
    if text.ends_with('\n') { Ok(()) } else { f.write_str("\n") }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn changes_are_named_by_the_path_of_the_field() {
        let config = |kubelet, hostlet| EffectiveConfig { kubelet, hostlet, providers: None };
        let old = config(
            json!({"maxPods": 110, "logging": {"verbosity": 2, "format": "text"}, "clusterDNS": ["10.0.0.1"]}),
            json!({"maxConcurrentStarts": 3}),
        );
        assert_eq!(old.changes(&old), Vec::<String>::new());
        let new = config(
            json!({"maxPods": 110, "logging": {"verbosity": 4, "format": "text"}, "clusterDNS": ["10.0.0.2"],
                "systemReserved": {"cpu": "1"}}),
            json!({}),
        );
        let paths = ["clusterDNS", "logging.verbosity", "systemReserved", "maxConcurrentStarts"];
        assert_eq!(old.changes(&new), paths);
        assert_eq!(new.changes(&old), paths);
        let other = old.clone().with_providers(Some("sha256:0".to_owned()));
        assert_eq!(old.changes(&other), ["--image-credential-provider-config"]);
    }
}
