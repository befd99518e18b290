//! Whether a volume is to grow on this node now, by its claim (upstream `NodeExpander`, and the operations that call it). Pure.

use std::sync::Arc;

use hostlet_base::Quantity;
use hostlet_csi::{Growth, Moment, NodeSize, Protocol};
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, PersistentVolumeClaimStatus};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity as ApiQuantity;

/// The resource of all sizes here.
pub(super) const STORAGE: &str = "storage";

/// The status of a claim whose volume the node is to grow.
const PENDING: &str = "NodeResizePending";

/// The status of one whose volume the node grows.
pub(super) const IN_PROGRESS: &str = "NodeResizeInProgress";

/// The annotation of a claim whose volume, used by several nodes, no node has to grow.
const NOT_REQUIRED: &str = "volume.kubernetes.io/node-expansion-not-required";

/// What is done.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Plan {
    /// Nothing now. This node knows the volume as one of this size from now on; `None` if it keeps what it knew.
    Nothing(Option<i64>),
    /// It would grow, and the pod can only read it.
    ReadOnly,
    /// The driver is called.
    Grow(Box<Growth>),
}

/// What is done for the volume of a claim. `capacity` is that of its PersistentVolume.
pub(super) fn plan(
    claim: Arc<PersistentVolumeClaim>,
    capacity: Option<&ApiQuantity>,
    read_only: bool,
    at: Moment,
    size: NodeSize,
) -> Plan {
    let none = PersistentVolumeClaimStatus::default();
    let status = claim.status.as_ref().unwrap_or(&none);
    let claimed = storage(status.capacity.as_ref()).and_then(bytes).unwrap_or_default();
    let (Some(capacity), Some(of_volume)) = (capacity, capacity.and_then(bytes)) else {
        return Plan::Nothing(None);
    };
    let known = match at {
        Moment::Mounting => claimed,
        Moment::InUse => size.known.unwrap_or(claimed),
    };
    // As upstream, a claim without a size is not one whose size has changed.
    let is_unknown = at == Moment::InUse && known == 0;
    if of_volume <= known || is_unknown {
        return Plan::Nothing(Some(known));
    }
    if read_only {
        return Plan::ReadOnly;
    }
    let resize = status.allocated_resource_statuses.as_ref().and_then(|all| all.get(STORAGE));
    let resize = resize.map_or("", String::as_str);
    let allocated = storage(status.allocated_resources.as_ref());
    if resize.is_empty() && status.allocated_resources.is_none() {
        return grow(&claim, capacity, of_volume, Protocol::Legacy);
    }
    let (Some(quantity), Some(new)) = (allocated, allocated.and_then(bytes)) else {
        return Plan::Nothing(None);
    };
    if claimed >= new && resize.is_empty() {
        return match is_shared(&claim) {
            true => grow(&claim, quantity, new, Protocol::Shared),
            // The controller did all of it.
            false => Plan::Nothing(Some(new)),
        };
    }
    if resize != PENDING && resize != IN_PROGRESS {
        return Plan::Nothing(None);
    }
    // A user who asks for another size after a failure gets it only once this expansion has an end.
    let gives_up = size.has_failed && requested(&claim).and_then(bytes) != Some(new);
    grow(&claim, quantity, new, Protocol::Recovery { gives_up })
}

fn grow(claim: &Arc<PersistentVolumeClaim>, quantity: &ApiQuantity, size: i64, protocol: Protocol) -> Plan {
    Plan::Grow(Box::new(Growth { claim: claim.clone(), quantity: quantity.clone(), size, protocol }))
}

/// The size of a list of resources.
pub(super) fn storage(all: Option<&std::collections::BTreeMap<String, ApiQuantity>>) -> Option<&ApiQuantity> {
    all.and_then(|all| all.get(STORAGE))
}

/// The size that the user asks for.
fn requested(claim: &PersistentVolumeClaim) -> Option<&ApiQuantity> {
    let resources = claim.spec.as_ref()?.resources.as_ref()?;
    storage(resources.requests.as_ref())
}

/// Whether each node that uses the volume grows it for itself.
fn is_shared(claim: &PersistentVolumeClaim) -> bool {
    let modes = claim.spec.as_ref().and_then(|spec| spec.access_modes.as_ref());
    let is_not_required =
        claim.metadata.annotations.as_ref().is_some_and(|all| all.contains_key(NOT_REQUIRED));
    modes.into_iter().flatten().any(|mode| mode == "ReadWriteMany") && !is_not_required
}

/// Bytes; `None` for what is no quantity.
pub(super) fn bytes(quantity: &ApiQuantity) -> Option<i64> {
    Quantity::parse(&quantity.0).ok().map(|quantity| quantity.value())
}

#[cfg(test)]
#[path = "rules_tests.rs"]
mod tests;
