//! Quality of service class of a pod.

use std::fmt;

/// Quality of service class (Kubernetes docs, "Pod Quality of Service Classes").
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum QosClass {
    /// Every container has cpu and memory limits, equal to its requests.
    Guaranteed,
    /// Some request or limit is set.
    Burstable,
    /// No cpu or memory request or limit at all.
    BestEffort,
}

impl QosClass {
    /// The name used in `status.qosClass`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Guaranteed => "Guaranteed",
            Self::Burstable => "Burstable",
            Self::BestEffort => "BestEffort",
        }
    }
}

impl fmt::Display for QosClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
