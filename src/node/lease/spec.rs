//! The lease as it is made and renewed. Pure.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta, OwnerReference};

/// Where the leases of nodes are.
pub(super) const NAMESPACE: &str = "kube-node-lease";

/// The part of its duration after which a lease is renewed; upstream's constant.
const RENEWED_AFTER: f64 = 0.25;

/// The pause is longer by up to this part of it; upstream's constant.
const JITTER: f64 = 0.04;

/// The lease renewed at `now`, made of the one there is. The owner is set once the node is known, so that the lease goes
/// with it.
pub(super) fn renewed(
    base: Option<&Lease>,
    name: &str,
    duration: Duration,
    owner: Option<&Node>,
    now: Timestamp,
) -> Lease {
    let mut lease = base.cloned().unwrap_or_else(|| Lease {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            namespace: Some(NAMESPACE.to_owned()),
            ..ObjectMeta::default()
        },
        spec: None,
    });
    let spec = lease.spec.get_or_insert_default();
    spec.holder_identity = Some(name.to_owned());
    spec.lease_duration_seconds = i32::try_from(duration.as_secs()).ok();
    spec.renew_time = Some(MicroTime(now));
    if let Some(uid) = owner.and_then(|node| node.metadata.uid.as_ref()) {
        let owners = lease.metadata.owner_references.get_or_insert_default();
        if !owners.iter().any(|owner| owner.uid == *uid) {
            // A Node of this name that is no more would take the lease with it.
            owners.retain(|owner| !(owner.kind == "Node" && owner.name == name));
            owners.push(OwnerReference {
                api_version: "v1".to_owned(),
                kind: "Node".to_owned(),
                name: name.to_owned(),
                uid: uid.clone(),
                ..OwnerReference::default()
            });
        }
    }
    lease
}

/// The pause between two renewals. `random` is from 0 up to 1.
pub(super) fn pause(duration: Duration, random: f64) -> Duration {
    duration.mul_f64(RENEWED_AFTER * (1.0 + JITTER * random))
}
