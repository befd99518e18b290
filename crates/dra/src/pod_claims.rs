//! Which ResourceClaims a pod uses, and which requests of them its containers use, by its spec and status (upstream
//! `resourceclaim.Name`). Pure.

use std::collections::BTreeSet;

use hostlet_base::Quantity;
use k8s_openapi::api::core::v1::{
    Container, Pod, PodExtendedResourceClaimStatus, PodResourceClaim, PodResourceClaimStatus,
};

use crate::PrepareError;

/// A ResourceClaim that a pod uses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PodClaim {
    /// The name of the object.
    pub(crate) name: String,
    /// Whether it was made for the pod, which must then own it.
    pub(crate) is_made: bool,
}

/// What a container uses of a ResourceClaim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Use {
    /// The name of the object.
    pub(crate) claim: String,
    /// The request; `None` is the whole claim.
    pub(crate) request: Option<String>,
    /// The name of the resource in the status of the container; `None` for extended resources.
    pub(crate) resource: Option<String>,
}

/// The claims of a pod. Those that are not needed are left out.
pub(crate) fn pod_claims(pod: &Pod) -> Result<Vec<PodClaim>, PrepareError> {
    let mut claims = Vec::new();
    for claim in listed(pod) {
        if let Some(claim) = named(pod, claim)?
            && !claims.contains(&claim)
        {
            claims.push(claim);
        }
    }
    if let Some(extended) = extended(pod) {
        claims.push(PodClaim { name: extended.resource_claim_name.clone(), is_made: false });
    }
    Ok(claims)
}

/// Whether a pod has claims at all.
pub fn has_claims(pod: &Pod) -> bool {
    !listed(pod).is_empty() || extended(pod).is_some()
}

/// What a container uses.
pub(crate) fn uses(pod: &Pod, container: &Container) -> Result<Vec<Use>, PrepareError> {
    let mut uses = Vec::new();
    let used = container.resources.iter().flat_map(|resources| resources.claims.iter().flatten());
    for used in used {
        let Some(claim) = listed(pod).iter().find(|claim| claim.name == used.name) else { continue };
        let Some(claim) = named(pod, claim)? else { continue };
        let request = used.request.clone().filter(|request| !request.is_empty());
        let resource = match &request {
            Some(request) => format!("claim:{}/{request}", used.name),
            None => format!("claim:{}", used.name),
        };
        uses.push(Use { claim: claim.name, request, resource: Some(resource) });
    }
    let Some(extended) = extended(pod) else { return Ok(uses) };
    let requested = requested_resources(container);
    let of_container = extended.request_mappings.iter().filter(|mapping| {
        mapping.container_name == container.name && requested.contains(mapping.resource_name.as_str())
    });
    uses.extend(of_container.map(|mapping| Use {
        claim: extended.resource_claim_name.clone(),
        request: Some(mapping.request_name.clone()),
        resource: None,
    }));
    Ok(uses)
}

/// The resources of which a container requests some.
fn requested_resources(container: &Container) -> BTreeSet<&str> {
    let resources = container.resources.iter();
    let requests = resources.flat_map(|resources| resources.requests.iter().flatten());
    let is_some = |(_, amount): &(&String, &k8s_openapi::apimachinery::pkg::api::resource::Quantity)| {
        Quantity::parse(&amount.0).is_ok_and(|amount| amount != Quantity::count(0))
    };
    requests.filter(is_some).map(|(name, _)| name.as_str()).collect()
}

/// The object of a claim in the spec; `None` if none is needed.
fn named(pod: &Pod, claim: &PodResourceClaim) -> Result<Option<PodClaim>, PrepareError> {
    if let Some(name) = &claim.resource_claim_name {
        return Ok(Some(PodClaim { name: name.clone(), is_made: false }));
    }
    if claim.resource_claim_template_name.is_none() {
        return Err(PrepareError::UnknownKind { pod: full_name(pod), claim: claim.name.clone() });
    }
    let statuses = pod.status.iter().flat_map(|status| status.resource_claim_statuses.iter().flatten());
    let mut own = statuses.filter(|status: &&PodResourceClaimStatus| status.name == claim.name);
    let status = own.next().ok_or_else(|| PrepareError::NotCreated { pod: full_name(pod) })?;
    Ok(status.resource_claim_name.clone().map(|name| PodClaim { name, is_made: true }))
}

fn listed(pod: &Pod) -> &[PodResourceClaim] {
    pod.spec.as_ref().and_then(|spec| spec.resource_claims.as_deref()).unwrap_or_default()
}

fn extended(pod: &Pod) -> Option<&PodExtendedResourceClaimStatus> {
    pod.status.as_ref()?.extended_resource_claim_status.as_ref()
}

/// Namespace and name.
pub(crate) fn full_name(pod: &Pod) -> String {
    let metadata = &pod.metadata;
    let (namespace, name) = (metadata.namespace.as_deref(), metadata.name.as_deref());
    format!("{}/{}", namespace.unwrap_or_default(), name.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn pod(spec: Value, status: Value) -> Pod {
        let pod =
            json!({"metadata": {"name": "p", "namespace": "ns", "uid": "u"}, "spec": spec, "status": status});
        serde_json::from_value(pod).unwrap()
    }

    fn container(resources: Value) -> Value {
        json!([{"name": "c", "resources": resources}])
    }

    #[test]
    fn claims_are_found_by_name_or_by_the_status_of_their_template() {
        let spec = json!({"containers": [], "resourceClaims": [
            {"name": "shared", "resourceClaimName": "gpu"},
            {"name": "own", "resourceClaimTemplateName": "t"},
            {"name": "unneeded", "resourceClaimTemplateName": "t"},
        ]});
        let status = json!({
            "resourceClaimStatuses": [{"name": "own", "resourceClaimName": "p-own-1"}, {"name": "unneeded"}],
            "extendedResourceClaimStatus": {"resourceClaimName": "p-ext", "requestMappings": []},
        });
        let claims = pod_claims(&pod(spec.clone(), status)).unwrap();
        let claims: Vec<_> = claims.iter().map(|claim| (claim.name.as_str(), claim.is_made)).collect();
        assert_eq!(claims, [("gpu", false), ("p-own-1", true), ("p-ext", false)]);
        let error = pod_claims(&pod(spec, json!({}))).unwrap_err();
        assert_eq!(error.to_string(), "pod \"ns/p\": ResourceClaim not created yet");
        let spec = json!({"containers": [], "resourceClaims": [{"name": "new"}]});
        let error = pod_claims(&pod(spec, json!({}))).unwrap_err().to_string();
        assert_eq!(error, "pod \"ns/p\", spec.resourceClaim \"new\": none of the supported fields are set");
    }

    #[test]
    fn containers_use_whole_claims_requests_and_extended_resources() {
        let spec = json!({
            "containers": container(json!({
                "claims": [{"name": "a"}, {"name": "a", "request": "big"}, {"name": "unknown"}],
                "requests": {"example.com/gpu": "1", "example.com/none": "0"},
            })),
            "resourceClaims": [{"name": "a", "resourceClaimName": "gpu"}],
        });
        let mapping = |container: &str, request: &str, resource: &str| json!({"containerName": container, "requestName": request, "resourceName": resource});
        let status = json!({"extendedResourceClaimStatus": {"resourceClaimName": "ext", "requestMappings": [
            mapping("c", "r0", "example.com/gpu"),
            mapping("c", "r1", "example.com/gpu"),
            mapping("c", "r2", "example.com/none"),
            mapping("other", "r3", "example.com/gpu"),
        ]}});
        let pod = pod(spec, status);
        let uses = uses(&pod, &pod.spec.as_ref().unwrap().containers[0]).unwrap();
        let uses: Vec<_> = uses
            .iter()
            .map(|used| (used.claim.as_str(), used.request.as_deref(), used.resource.as_deref()))
            .collect();
        let expected = [
            ("gpu", None, Some("claim:a")),
            ("gpu", Some("big"), Some("claim:a/big")),
            ("ext", Some("r0"), None),
            ("ext", Some("r1"), None),
        ];
        assert_eq!(uses, expected);
    }
}
