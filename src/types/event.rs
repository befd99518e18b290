//! Events of pods, as `kubectl describe` shows them.

use std::borrow::Cow;
use std::fmt;

/// Whether an event tells of trouble.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventKind {
    /// The ordinary course of things.
    Normal,
    /// Something a person may have to look at.
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

/// An event about a pod or one of its containers. Reasons and messages are upstream's: people and programs match them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodEvent {
    /// Trouble or not.
    pub kind: EventKind,
    /// Machine-readable cause, e.g. `BackOff`.
    pub reason: Cow<'static, str>,
    /// For people.
    pub message: String,
}

impl PodEvent {
    /// An event of the ordinary course of things.
    pub fn normal(reason: impl Into<Cow<'static, str>>, message: impl Into<String>) -> Self {
        Self { kind: EventKind::Normal, reason: reason.into(), message: message.into() }
    }

    /// An event that tells of trouble.
    pub fn warning(reason: impl Into<Cow<'static, str>>, message: impl Into<String>) -> Self {
        Self { kind: EventKind::Warning, reason: reason.into(), message: message.into() }
    }
}

impl fmt::Display for PodEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.reason, self.message)
    }
}
