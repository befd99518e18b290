//! Image pull policy.

/// `imagePullPolicy` of a container (Kubernetes docs, "Images").
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PullPolicy {
    /// Pull every time a container starts.
    Always,
    /// Pull if the image is not present.
    IfNotPresent,
    /// Never pull; the image must be present.
    Never,
}

impl PullPolicy {
    /// The API's name of the policy.
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Always => "Always",
            Self::IfNotPresent => "IfNotPresent",
            Self::Never => "Never",
        }
    }

    /// Parses the API's name of a policy; `None` for any other text.
    pub fn from_api(name: &str) -> Option<Self> {
        match name {
            "Always" => Some(Self::Always),
            "IfNotPresent" => Some(Self::IfNotPresent),
            "Never" => Some(Self::Never),
            _ => None,
        }
    }
}
