//! The configuration that holds, every default included, as documents that could be given back as a file.

use std::fmt;

use serde::Serialize;
use serde_json::Value;

use super::hostlet::HostletConfiguration;
use super::merge::without_nulls;
use super::wire::KubeletConfiguration;
use crate::types::json;

/// The whole configuration that holds. Displayed, it is YAML of two documents, which `--config` would take as they are.
#[derive(Clone, Debug, PartialEq)]
pub struct EffectiveConfig {
    kubelet: Value,
    hostlet: Value,
}

impl EffectiveConfig {
    pub(super) fn new(kubelet: &KubeletConfiguration, hostlet: &HostletConfiguration) -> Self {
        Self { kubelet: value(kubelet), hostlet: value(hostlet) }
    }

    /// The KubeletConfiguration, without the fields that have no value.
    pub fn kubelet(&self) -> &Value {
        &self.kubelet
    }

    /// The HostletConfiguration.
    pub fn hostlet(&self) -> &Value {
        &self.hostlet
    }
}

/// The document as JSON, without the fields that are not set.
fn value(document: &impl Serialize) -> Value {
    // The documents are plain data with text for keys; there is nothing in them that JSON has no word for.
    without_nulls(json::to_value(document).unwrap_or_default())
}

impl fmt::Display for EffectiveConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_document(f, &self.kubelet)?;
        f.write_str("---\n")?;
        write_document(f, &self.hostlet)
    }
}

/// Writes one document, what it is first.
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
