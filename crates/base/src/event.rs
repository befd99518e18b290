//! Events of pods, as `kubectl describe` shows them.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

/// The type of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventKind {
    /// Normal operation.
    Normal,
    /// A problem that may need attention.
    Warning,
}

impl EventKind {
    /// The value of an Event's `type`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Normal => "Normal",
            Self::Warning => "Warning",
        }
    }
}

/// An event about a pod or one of its containers, with upstream's reasons and messages, which users and programs match.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodEvent {
    /// Normal or warning.
    pub kind: EventKind,
    /// Machine-readable reason, e.g. `BackOff`.
    pub reason: Cow<'static, str>,
    /// Human-readable message.
    pub message: String,
    /// Annotations of the event.
    pub annotations: BTreeMap<String, String>,
}

impl PodEvent {
    /// An event of type `Normal`: nothing for anybody to do.
    pub fn normal(reason: impl Into<Cow<'static, str>>, message: impl Into<String>) -> Self {
        Self::new(EventKind::Normal, reason.into(), message.into())
    }

    /// An event of type `Warning`: something failed.
    pub fn warning(reason: impl Into<Cow<'static, str>>, message: impl Into<String>) -> Self {
        Self::new(EventKind::Warning, reason.into(), message.into())
    }

    /// The same with these annotations.
    #[must_use]
    pub fn annotated(self, annotations: BTreeMap<String, String>) -> Self {
        Self { annotations, ..self }
    }

    fn new(kind: EventKind, reason: Cow<'static, str>, message: String) -> Self {
        Self { kind, reason, message, annotations: BTreeMap::new() }
    }
}

impl fmt::Display for PodEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.reason, self.message)
    }
}
