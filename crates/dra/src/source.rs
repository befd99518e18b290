//! Reads a pod's ResourceClaims, and checks that the pod may use them now. Calls no driver.

use std::collections::BTreeMap;

use async_trait::async_trait;
use futures::future::try_join_all;
use hostlet_pod::objects::ObjectError;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::resource::v1::{DeviceRequestAllocationResult, ResourceClaim};

use crate::ledger::AllocatedClaim;
use crate::pod_claims::{PodClaim, full_name, pod_claims};
use crate::{ClaimRef, PrepareError};

/// All operations of `skipNodeOperations`.
const ALL_OPERATIONS: &str = "*";

/// Where ResourceClaims are.
#[async_trait]
pub trait ClaimSource: Send + Sync + 'static {
    /// Reads a claim as it is now. Has its own deadline.
    async fn claim(&self, namespace: &str, name: &str) -> Result<ResourceClaim, ObjectError>;
}

/// Of a node without an API server, whose pods have no claims.
#[derive(Clone, Copy, Debug)]
pub struct NoClaims;

#[async_trait]
impl ClaimSource for NoClaims {
    async fn claim(&self, _: &str, _: &str) -> Result<ResourceClaim, ObjectError> {
        Err(ObjectError::NotFound("a claim is an object of an API server, and this node has none".to_owned()))
    }
}

/// The claims of a pod, which may use all of them.
pub(crate) async fn allocated_claims(
    source: &dyn ClaimSource,
    pod: &Pod,
) -> Result<Vec<AllocatedClaim>, PrepareError> {
    let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
    let claims = pod_claims(pod)?;
    let read = claims.iter().map(|named| async move {
        let read = source.claim(namespace, &named.name).await;
        let claim = read.map_err(|error| PrepareError::Fetch { name: named.name.clone(), error })?;
        allocated(pod, named, &claim)
    });
    try_join_all(read).await
}

/// Checks that a pod may use a claim.
fn allocated(pod: &Pod, named: &PodClaim, claim: &ResourceClaim) -> Result<AllocatedClaim, PrepareError> {
    let metadata = &claim.metadata;
    let (name, uid) = (named.name.clone(), metadata.uid.clone().unwrap_or_default());
    let namespace = metadata.namespace.clone().unwrap_or_default();
    let pod_uid = pod.metadata.uid.as_deref().unwrap_or_default();
    let mut owners = metadata.owner_references.iter().flatten();
    if named.is_made && !owners.any(|owner| owner.controller == Some(true) && owner.uid == pod_uid) {
        return Err(PrepareError::NotOwner { claim: format!("{namespace}/{name}"), pod: full_name(pod) });
    }
    let status = claim.status.as_ref();
    let mut reserved = status.iter().flat_map(|status| status.reserved_for.iter().flatten());
    if pod_uid.is_empty() || !reserved.any(|user| user.uid == pod_uid) {
        return Err(PrepareError::NotReserved {
            pod: pod.metadata.name.clone().unwrap_or_default(),
            pod_uid: pod_uid.to_owned(),
            claim: name,
            claim_uid: uid,
        });
    }
    let allocation = status.and_then(|status| status.allocation.as_ref());
    let allocation = allocation.ok_or_else(|| PrepareError::NotAllocated(name.clone()))?;
    let results = allocation.devices.iter().flat_map(|devices| devices.results.iter().flatten());
    Ok(AllocatedClaim { claim: ClaimRef { namespace, name, uid }, drivers: drivers(results) })
}

/// The drivers of allocated devices, with the operations that all devices of a driver skip.
fn drivers<'r>(
    results: impl Iterator<Item = &'r DeviceRequestAllocationResult>,
) -> BTreeMap<String, Vec<String>> {
    let mut of_driver: BTreeMap<String, Vec<&[String]>> = BTreeMap::new();
    for result in results {
        let skipped = result.skip_node_operations.as_deref().unwrap_or_default();
        of_driver.entry(result.driver.clone()).or_default().push(skipped);
    }
    let of_all = |devices: Vec<&[String]>| {
        let skips = |device: &[String], operation: &str| {
            device.iter().any(|skipped| skipped == operation || skipped == ALL_OPERATIONS)
        };
        let by_all = |operation: &str| devices.iter().all(|device| skips(device, operation));
        if by_all(ALL_OPERATIONS) {
            return vec![ALL_OPERATIONS.to_owned()];
        }
        let mut named: Vec<String> =
            devices.iter().flat_map(|device| device.iter().cloned()).filter(|name| by_all(name)).collect();
        named.sort_unstable();
        named.dedup();
        named
    };
    of_driver.into_iter().map(|(driver, devices)| (driver, of_all(devices))).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn check(is_made: bool, claim: Value) -> Result<AllocatedClaim, String> {
        let pod = json!({"metadata": {"name": "p", "namespace": "ns", "uid": "u"}});
        let pod: Pod = serde_json::from_value(pod).unwrap();
        let named = PodClaim { name: "c".to_owned(), is_made };
        let claim: ResourceClaim = serde_json::from_value(claim).unwrap();
        allocated(&pod, &named, &claim).map_err(|error| error.to_string())
    }

    fn claim(owner: &str, user: &str, allocation: Value) -> Value {
        json!({
            "metadata": {"name": "c", "namespace": "ns", "uid": "cu", "ownerReferences": [
                {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": owner, "controller": true},
            ]},
            "spec": {},
            "status": {"reservedFor": [{"resource": "pods", "name": "p", "uid": user}], "allocation": allocation},
        })
    }

    fn device(driver: &str, skipped: &[&str]) -> Value {
        json!({"driver": driver, "pool": "p", "device": "d", "request": "r", "skipNodeOperations": skipped})
    }

    #[test]
    fn a_pod_uses_only_claims_that_are_made_reserved_and_allocated_for_it() {
        let results = json!({"devices": {"results": [device("gpu.example.com", &[])]}});
        let claims = check(true, claim("u", "u", results.clone())).unwrap();
        assert_eq!(claims.claim.uid, "cu");
        assert_eq!(claims.drivers.keys().collect::<Vec<_>>(), ["gpu.example.com"]);
        let error = check(true, claim("other", "u", results.clone())).unwrap_err();
        assert_eq!(error, "ResourceClaim ns/c was not created for Pod ns/p (Pod is not owner)");
        assert!(check(false, claim("other", "u", results.clone())).is_ok());
        let error = check(false, claim("u", "other", results)).unwrap_err();
        assert_eq!(error, "pod p (u) is not allowed to use ResourceClaim c (cu)");
        assert_eq!(check(false, claim("u", "u", Value::Null)).unwrap_err(), "ResourceClaim c: not allocated");
    }

    #[test]
    fn a_driver_skips_what_all_of_its_devices_skip() {
        const PREPARE: &str = "NodePrepareResources";
        let results = [
            device("all", &["*"]),
            device("all", &["*"]),
            device("one", &["*"]),
            device("one", &[PREPARE]),
            device("none", &["*"]),
            device("none", &[]),
        ];
        let allocation = json!({"devices": {"results": results}});
        let drivers = check(false, claim("u", "u", allocation)).unwrap().drivers;
        let skipped: Vec<(&str, Vec<&str>)> = drivers
            .iter()
            .map(|(driver, skipped)| (driver.as_str(), skipped.iter().map(String::as_str).collect()))
            .collect();
        assert_eq!(skipped, [("all", vec!["*"]), ("none", vec![]), ("one", vec![PREPARE])]);
    }
}
