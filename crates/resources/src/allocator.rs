//! The seam: what admission asks of everything that pods are granted. Has no state, and knows no kind of resource.

use hostlet_base::ResourceList;
use hostlet_pod::Rejection;
use k8s_openapi::api::core::v1::Pod;

use super::{AllocatedPod, Allocation, Shortage};

/// An allocator's answer about a pod.
#[derive(Clone, Debug, PartialEq)]
pub enum Admission {
    /// The pod is granted this.
    Granted(Allocation),
    /// The pod is granted nothing as long as others have what it needs. At least one shortage; the first is the one to report.
    NotYet(Vec<Shortage>),
    /// The pod is never granted what it needs, whatever others give up.
    Rejected(Rejection),
}

/// Grants pods a kind of resource. What it has granted is admission's to remember, and a pod that has terminated is no longer among
/// the allocated ones; so asking twice, or in vain, changes nothing.
pub trait Allocator {
    /// All that it can grant, by resource.
    fn capacity(&self) -> ResourceList;

    /// Whether it grants `pod` what it needs, next to what is `allocated` to others.
    fn admit(&self, pod: &Pod, allocated: &[AllocatedPod<'_>]) -> Admission;
}
