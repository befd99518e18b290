//! The effective configuration with all defaults, as documents that `--config` accepts.

use std::fmt;

use serde::Serialize;
use serde_json::Value;

use super::hostlet::HostletConfiguration;
use super::merge::without_nulls;
use super::wire::KubeletConfiguration;
use crate::types::json;

/// The effective configuration. `Display` writes two YAML documents that `--config` accepts.
#[derive(Clone, Debug, PartialEq)]
pub struct EffectiveConfig {
    kubelet: Value,
    hostlet: Value,
}

impl EffectiveConfig {
    pub(super) fn new(kubelet: &KubeletConfiguration, hostlet: &HostletConfiguration) -> Self {
        Self { kubelet: value(kubelet), hostlet: value(hostlet) }
    }

    /// The KubeletConfiguration, without unset fields.
    pub fn kubelet(&self) -> &Value {
        &self.kubelet
    }

    /// The HostletConfiguration.
    pub fn hostlet(&self) -> &Value {
        &self.hostlet
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
