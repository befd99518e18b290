//! A handler that records what it is given, for the tests of this crate.

use std::path::Path;

use parking_lot::Mutex;
use serde_json::{Value, json};

use super::handler::{PluginEvent, PluginHandler, PluginRejected};

/// Handles `DRAPlugin`, whose plugins may listen later. Rejects plugins whose name begins with `bad`.
#[derive(Default)]
pub(super) struct Recorder {
    /// Whether it follows connections.
    follows: bool,
    events: Mutex<Vec<PluginEvent>>,
}

impl Recorder {
    /// One that follows connections.
    pub(super) fn following() -> Self {
        Self { follows: true, ..Self::default() }
    }

    /// The events so far, as `+name id`, `-name id`, `?name id` and `=name id` of its connection, and `!name`.
    pub(super) fn events(&self) -> Vec<String> {
        let text = |event: &PluginEvent| match event {
            PluginEvent::Registered(plugin) => format!("+{} {}", plugin.name, plugin.id),
            PluginEvent::Deregistered(plugin) => format!("-{} {}", plugin.name, plugin.id),
            PluginEvent::Disconnected(plugin) => format!("?{} {}", plugin.name, plugin.id),
            PluginEvent::Connected(plugin) => format!("={} {}", plugin.name, plugin.id),
            PluginEvent::Rejected { name } => format!("!{name}"),
        };
        self.events.lock().iter().map(text).collect()
    }
}

impl PluginHandler for Recorder {
    fn plugin_type(&self) -> &'static str {
        "DRAPlugin"
    }

    fn may_listen_later(&self) -> bool {
        true
    }

    fn validate(&self, name: &str, _: &Path, versions: &[String]) -> Result<(), PluginRejected> {
        if name.starts_with("bad") {
            return Err(PluginRejected(format!("{name} with {} is not accepted", versions.join(" "))));
        }
        Ok(())
    }

    fn follows_connections(&self) -> bool {
        self.follows
    }

    fn changed(&self, event: PluginEvent) {
        self.events.lock().push(event);
    }

    fn describe(&self, name: &str) -> Option<Value> {
        Some(json!({"devices": name.len()}))
    }
}
