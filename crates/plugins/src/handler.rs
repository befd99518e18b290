//! The seam between registration and the crates that use plugins of one type. Owns no behavior.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use jiff::Timestamp;

/// Identifies an instance of a plugin in this run of the daemon. The instance whose registration socket is newer has the larger one,
/// in whatever order they answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct InstanceId(pub u64);

impl fmt::Display for InstanceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// An instance of a plugin that is registered: a process that answered at a registration socket and was accepted. Several can have
/// the same name, during a rolling update; the newest serves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PluginInstance {
    /// Identifies it in this run. A plugin that registers again, also at the same socket, has another one.
    pub id: InstanceId,
    /// The plugin's name, e.g. the name of a DRA driver.
    pub name: String,
    /// The socket of the plugin's service: absolute, and a socket when the plugin was registered, unless its handler lets it listen later.
    pub endpoint: PathBuf,
    /// What the plugin says it supports, as it says it: `v1.DRAPlugin` or `1.0.0`.
    pub versions: Vec<String>,
    /// The registration socket.
    pub socket: PathBuf,
    /// When it was registered.
    pub since: Timestamp,
}

/// A change to the registered plugins of a type.
#[derive(Clone, Debug)]
pub enum PluginEvent {
    /// A plugin instance was registered. Earlier instances of the same name stay until they are deregistered.
    Registered(Arc<PluginInstance>),
    /// A plugin instance was deregistered: its registration socket was removed or replaced.
    Deregistered(Arc<PluginInstance>),
    /// The service of a registered instance cannot be reached, though its registration socket is still there: it was killed.
    /// Only for handlers that follow connections.
    Disconnected(Arc<PluginInstance>),
    /// It can be reached again.
    Connected(Arc<PluginInstance>),
    /// The handler rejected an instance that is not registered. Repeated with each attempt to register it.
    Rejected {
        /// The name that it states.
        name: String,
    },
}

/// Why a handler does not accept a plugin, for the plugin's author: names what is wrong and what would be accepted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct PluginRejected(pub String);

/// What serves one type of plugins.
pub trait PluginHandler: Send + Sync + 'static {
    /// The type, as plugins state it in `PluginInfo`: `DRAPlugin`.
    fn plugin_type(&self) -> &'static str;

    /// Whether a plugin may register before it listens on its endpoint: for types whose service is dialed when it is needed, not at the
    /// registration.
    fn may_listen_later(&self) -> bool {
        false
    }

    /// Checks what a plugin says about itself before it is registered. Pure: does no I/O. The name is not empty and at most 253
    /// bytes long, the endpoint is absolute and, unless plugins may listen later, an existing socket.
    ///
    /// # Errors
    ///
    /// A reason to reject the plugin, which is sent to the plugin.
    fn validate(&self, name: &str, endpoint: &Path, versions: &[String]) -> Result<(), PluginRejected>;

    /// Takes a change. Called by the task that registers, so it must not block. Events of one instance are in order, and each
    /// `Registered` is followed by at most one `Deregistered` of the same instance, which is its last event.
    fn changed(&self, event: PluginEvent);

    /// Whether a connection to each registered instance is kept open, so that its end is noticed.
    fn follows_connections(&self) -> bool {
        false
    }

    /// What the handler knows about the plugin of this name, for `hostlet plugins`: an object, or nothing.
    fn describe(&self, name: &str) -> Option<serde_json::Value>;
}

/// The handlers by type. Cheap to clone.
#[derive(Clone, Default)]
pub struct Handlers(Arc<BTreeMap<&'static str, Arc<dyn PluginHandler>>>);

impl Handlers {
    /// A set of handlers. Of two of one type, the last one counts.
    pub fn new(handlers: impl IntoIterator<Item = Arc<dyn PluginHandler>>) -> Self {
        Self(Arc::new(handlers.into_iter().map(|handler| (handler.plugin_type(), handler)).collect()))
    }

    pub(super) fn get(&self, plugin_type: &str) -> Option<&dyn PluginHandler> {
        self.0.get(plugin_type).map(|handler| &**handler)
    }

    /// The types that have a handler.
    pub(super) fn types(&self) -> Vec<&'static str> {
        self.0.keys().copied().collect()
    }
}
