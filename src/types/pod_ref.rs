//! Which pod: namespace, name and UID.

use std::fmt;
use std::sync::Arc;

use super::PodUid;

/// Names one pod. Cheap to clone.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PodRef {
    /// Namespace of the pod.
    pub namespace: Arc<str>,
    /// Name of the pod; for a static pod with the node's name appended.
    pub name: Arc<str>,
    /// UID of the pod.
    pub uid: PodUid,
}

impl PodRef {
    /// A reference from its three parts.
    pub fn new(namespace: &str, name: &str, uid: &str) -> Self {
        Self { namespace: namespace.into(), name: name.into(), uid: uid.into() }
    }

    /// `<name>_<namespace>`: what two incarnations of one static pod share (the kubelet's "full name").
    pub fn full_name(&self) -> String {
        format!("{}_{}", self.name, self.namespace)
    }
}

/// `<namespace>/<name>`, as people write it.
impl fmt::Display for PodRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}
