//! Events about the node. Each crate words its own; nothing is recorded here.

use std::borrow::Cow;
use std::sync::Arc;

use crate::EventKind;

/// An event about the node. Reasons and messages are upstream's: people and tools match them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeEvent {
    /// Normal or warning.
    pub kind: EventKind,
    /// Machine-readable cause, e.g. `NodeNotReady`.
    pub reason: Cow<'static, str>,
    /// Human-readable description.
    pub message: String,
}

/// Receives events about the node. Must not block.
pub type NodeEvents = Arc<dyn Fn(NodeEvent) + Send + Sync>;

impl NodeEvent {
    /// An event of type `Normal`: nothing for anybody to do.
    pub fn normal(reason: impl Into<Cow<'static, str>>, message: impl Into<String>) -> Self {
        Self { kind: EventKind::Normal, reason: reason.into(), message: message.into() }
    }

    /// An event of type `Warning`: something failed.
    pub fn warning(reason: impl Into<Cow<'static, str>>, message: impl Into<String>) -> Self {
        Self { kind: EventKind::Warning, reason: reason.into(), message: message.into() }
    }
}
