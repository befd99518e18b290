//! When an image is pulled.

/// `imagePullPolicy` of a container (Kubernetes docs, "Images").
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PullPolicy {
    /// Each time a container starts.
    Always,
    /// When the runtime does not have it.
    IfNotPresent,
    /// Not at all; the runtime must have it.
    Never,
}

impl PullPolicy {
    /// The policy of this name in the API; `None` for any other text.
    pub fn from_api(name: &str) -> Option<Self> {
        match name {
            "Always" => Some(Self::Always),
            "IfNotPresent" => Some(Self::IfNotPresent),
            "Never" => Some(Self::Never),
            _ => None,
        }
    }
}
