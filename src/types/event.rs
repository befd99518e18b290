//! What happened to a pod, in the words of a Kubernetes Event.

/// Whether an event tells of progress or of trouble.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EventKind {
    /// Nothing is wrong.
    Normal,
    /// Somebody may have to look.
    Warning,
}

impl EventKind {
    /// The value of the Event's `type`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Normal => "Normal",
            Self::Warning => "Warning",
        }
    }
}

/// One event. Of which pod or container, its reporter knows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodEvent {
    /// Progress or trouble.
    pub kind: EventKind,
    /// Machine-readable cause, in UpperCamelCase; clients match on it.
    pub reason: &'static str,
    /// What a person reads.
    pub message: String,
}

impl PodEvent {
    /// An event of progress.
    pub fn normal(reason: &'static str, message: String) -> Self {
        Self { kind: EventKind::Normal, reason, message }
    }

    /// An event of trouble.
    pub fn warning(reason: &'static str, message: String) -> Self {
        Self { kind: EventKind::Warning, reason, message }
    }
}
