//! Plugins on this host: who they are, and which of them serve. Does not know what a plugin does: a [`PluginHandler`] per type does.

mod handler;

pub use handler::{InstanceId, PluginEvent, PluginHandler, PluginInstance, PluginRejected};
