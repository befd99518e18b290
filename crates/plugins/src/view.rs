//! The plugins as people see them. Written by the daemon, read by the command line.

use std::fmt;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Whether a plugin is used, and if not, why.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum PluginState {
    /// Registered, and the newest of its name.
    Serving,
    /// Registered, and a newer one of its name serves.
    Standby,
    /// Its first registration is under way.
    Registering,
    /// Its registration failed, and is tried again.
    Failing,
    /// Plugins of its type are not supported.
    Unsupported,
}

impl fmt::Display for PluginState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Serving => "Serving",
            Self::Standby => "Standby",
            Self::Registering => "Registering",
            Self::Failing => "Failing",
            Self::Unsupported => "Unsupported",
        })
    }
}

/// A registration socket and the plugin at it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PluginView {
    /// The name of the plugin; unknown until it has answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Its type, e.g. `DRAPlugin`.
    #[serde(default, rename = "type", skip_serializing_if = "Option::is_none")]
    pub plugin_type: Option<String>,
    /// Whether it is used.
    pub state: PluginState,
    /// The versions or services that it supports, as it says it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub versions: Vec<String>,
    /// The registration socket.
    pub socket: String,
    /// The socket of its service.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub endpoint: Option<String>,
    /// When it was registered or, if it is not, when its socket was first seen.
    pub since: Timestamp,
    /// Failed attempts to register it in a row.
    #[serde(default)]
    pub failures: u32,
    /// Why it is not registered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_error: Option<String>,
    /// When its registration is tried again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_retry: Option<Timestamp>,
    /// What the part of hostlet that uses the plugin knows about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub details: Option<Value>,
}

impl PluginView {
    /// Whether it is registered.
    pub fn is_registered(&self) -> bool {
        match self.state {
            PluginState::Serving | PluginState::Standby => true,
            PluginState::Registering | PluginState::Failing | PluginState::Unsupported => false,
        }
    }

    /// What is wrong with it, one sentence each: why it cannot be registered, or what hinders the part of hostlet that uses it
    /// (`lastError` and `problems` of its details).
    pub fn problems(&self) -> Vec<String> {
        let name = self.name.as_deref().map(|name| format!(" {name}")).unwrap_or_default();
        match self.state {
            PluginState::Failing => {
                let at = &self.socket;
                let sentence = |error| format!("The plugin{name} at {at} cannot be registered: {error}");
                self.last_error.iter().map(sentence).collect()
            }
            PluginState::Unsupported => {
                let plugin_type = self.plugin_type.as_deref().unwrap_or_default();
                let at = &self.socket;
                vec![format!("The plugin{name} at {at} is a {plugin_type}, which hostlet does not support")]
            }
            PluginState::Serving => {
                let detail = |key| self.details.as_ref().and_then(|details| details.get(key));
                let listed = detail("problems").and_then(Value::as_array).into_iter().flatten();
                let texts = detail("lastError").into_iter().chain(listed).filter_map(Value::as_str);
                texts.map(|text| format!("Plugin{name}: {text}")).collect()
            }
            PluginState::Standby | PluginState::Registering => Vec::new(),
        }
    }
}
