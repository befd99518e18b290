//! The events about the node that report its plugins.

use std::path::Path;

use hostlet_base::node::NodeEvent;

/// A plugin was registered.
pub(super) fn registered_event(plugin_type: &str, name: &str, socket: &Path) -> NodeEvent {
    let message = format!("Registered {plugin_type} {name} at {}", socket.display());
    NodeEvent::normal("PluginRegistered", message)
}

/// The socket of a registered plugin was removed.
pub(super) fn deregistered_event(plugin_type: &str, name: &str, socket: &Path) -> NodeEvent {
    let message = format!("{plugin_type} {name} is no longer registered: {} is gone", socket.display());
    NodeEvent::normal("PluginDeregistered", message)
}

/// A plugin cannot be registered.
pub(super) fn not_registered_event(name: Option<&str>, socket: &Path, error: &str) -> NodeEvent {
    let name = name.map(|name| format!(" {name}")).unwrap_or_default();
    let message = format!("Cannot register plugin{name} at {}: {error}", socket.display());
    NodeEvent::warning("FailedPluginRegistration", message)
}
