//! The content of the lease. Pure.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta, OwnerReference};

pub(super) const NAMESPACE: &str = "kube-node-lease";

/// The fraction of its duration after which a lease is renewed; upstream's constant.
const RENEWED_AFTER: f64 = 0.25;

/// The resolution of a lease's times.
const TICK: SignedDuration = SignedDuration::from_micros(1);

/// The interval is lengthened by up to this fraction; upstream's constant.
const JITTER: f64 = 0.04;

/// The lease renewed at `now`, based on the existing one. The Node becomes its owner once it is known, so that the lease is
/// garbage-collected with it. Its time never goes back, unlike the stock kubelet's: to the node lifecycle controller only a later one is
/// a renewal, so a clock that is set back would make the node unreachable.
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
    let after = |MicroTime(last): &MicroTime| last.checked_add(TICK).unwrap_or(*last);
    let renewed_at = spec.renew_time.as_ref().map_or(now, |last| now.max(after(last)));
    spec.renew_time = Some(MicroTime(renewed_at));
    if let Some(uid) = owner.and_then(|node| node.metadata.uid.as_ref()) {
        let owners = lease.metadata.owner_references.get_or_insert_default();
        if !owners.iter().any(|owner| owner.uid == *uid) {
            // A former Node of this name would take the lease with it.
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

/// The interval between two renewals. `random` is in 0..1.
pub(super) fn interval(duration: Duration, random: f64) -> Duration {
    duration.mul_f64(RENEWED_AFTER * (1.0 + JITTER * random))
}
