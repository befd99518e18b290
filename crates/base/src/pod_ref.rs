//! A reference to a pod: namespace, name and UID.

use std::fmt;
use std::sync::Arc;

use super::PodUid;

/// A reference to a pod. Cheap to clone.
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
    /// Creates a reference.
    pub fn new(namespace: &str, name: &str, uid: &str) -> Self {
        Self { namespace: namespace.into(), name: name.into(), uid: uid.into() }
    }

    /// `<name>_<namespace>`, shared by all versions of a static pod (the kubelet's "full name").
    pub fn full_name(&self) -> String {
        format!("{}_{}", self.name, self.namespace)
    }

    /// `<name>_<namespace>(<uid>)`, as upstream names pods in messages.
    pub fn described(&self) -> String {
        format!("{}_{}({})", self.name, self.namespace, self.uid)
    }
}

/// Formats `<namespace>/<name>`.
impl fmt::Display for PodRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}
