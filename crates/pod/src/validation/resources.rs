//! Requests and limits: names, amounts, and that no request exceeds its limit.

use std::collections::{BTreeMap, BTreeSet};

use hostlet_base::Quantity;
use hostlet_base::resources::HUGE_PAGES;
use k8s_openapi::api::core::v1::{ContainerResizePolicy, Pod, PodSpec, ResourceRequirements};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity as WireQuantity;

use super::{Errors, FieldError, FieldPath, each_invalid, names, required};
use crate::resources::{limited_resources, requested_resources};

/// The resources of every node. All others are devices or other extended resources.
const STANDARD: [&str; 3] = ["cpu", "memory", "ephemeral-storage"];

/// The resources that can be resized, and upstream's policies for it.
const RESIZABLE: [&str; 2] = ["cpu", "memory"];
const RESIZE_POLICIES: [&str; 2] = ["NotRequired", "RestartContainer"];

pub(super) fn check(requirements: &ResourceRequirements, path: &FieldPath, errors: &mut Errors) {
    let limits = parsed(requirements.limits.iter().flatten(), &path.child("limits"), errors);
    // A request that was defaulted from its limit is checked with it, to report the error once.
    let limit_of = |name: &String| requirements.limits.as_ref().and_then(|limits| limits.get(name));
    let own =
        requirements.requests.iter().flatten().filter(|(name, request)| limit_of(name) != Some(*request));
    let requests = parsed(own, &path.child("requests"), errors);
    let requests_path = path.child("requests");
    for (name, request) in &requests {
        let Some(limit) = limits.get(name) else {
            if !STANDARD.contains(name) {
                let why = "Limit must be set for non overcommitable resources";
                errors.push(FieldError::required(&path.child("limits").key(name), why));
            }
            continue;
        };
        if !STANDARD.contains(name) && request != limit {
            let rule = format!("must be equal to {name} limit of {limit}");
            errors.push(FieldError::invalid(&requests_path, request.to_string(), rule));
        } else if request > limit {
            let rule = format!("must be less than or equal to {name} limit of {limit}");
            errors.push(FieldError::invalid(&requests_path, request.to_string(), rule));
        }
    }
    let has = |name: &str| limits.contains_key(name) || requests.contains_key(name);
    if limits.keys().chain(requests.keys()).any(|name| name.starts_with(HUGE_PAGES))
        && !has("cpu")
        && !has("memory")
    {
        errors.push(FieldError::forbidden(path, "HugePages require cpu or memory"));
    }
}

/// Checks what a resize of a container does to it.
pub(super) fn check_resize_policy(
    spec: &PodSpec,
    policies: &[ContainerResizePolicy],
    path: &FieldPath,
    errors: &mut Errors,
) {
    let mut taken = BTreeSet::new();
    for (index, policy) in policies.iter().enumerate() {
        let (resource, restart) = (policy.resource_name.as_str(), policy.restart_policy.as_str());
        if !taken.insert(resource) {
            errors.push(FieldError::duplicate(&path.index(index), resource));
        }
        if required(errors, path, resource) && !RESIZABLE.contains(&resource) {
            errors.push(FieldError::unsupported(path, resource, &RESIZABLE));
        }
        if required(errors, path, restart) && !RESIZE_POLICIES.contains(&restart) {
            errors.push(FieldError::unsupported(path, restart, &RESIZE_POLICIES));
        }
        if spec.restart_policy.as_deref() == Some("Never") && restart != "NotRequired" {
            let rule = "must be 'NotRequired' when pod `restartPolicy` is 'Never'";
            errors.push(FieldError::invalid(path, restart, rule));
        }
    }
}

/// Checks the resources of a pod as a whole (KEP-2837) against its containers.
pub(super) fn check_whole(spec: &PodSpec, path: &FieldPath, errors: &mut Errors) {
    let Some(whole) = &spec.resources else { return };
    if whole.claims.is_some() {
        let why = "claims may not be set for Resources at pod-level";
        errors.push(FieldError::forbidden(&path.child("claims"), why));
    }
    check(whole, path, errors);
    for (list, name) in [(&whole.requests, "requests"), (&whole.limits, "limits")] {
        for resource in list.iter().flat_map(BTreeMap::keys).filter(|resource| !is_of_pod(resource)) {
            let path = path.child(name).key(resource);
            errors.push(FieldError::unsupported(&path, resource, &["cpu", "hugepages-", "memory"]));
        }
    }
    let containers = PodSpec { resources: None, overhead: None, ..spec.clone() };
    let containers = Pod { spec: Some(containers), ..Pod::default() };
    let huge_pages = limited_resources(&containers).only(|name| name.starts_with(HUGE_PAGES));
    let together = [
        (&whole.requests, requested_resources(&containers), "requests"),
        (&whole.limits, huge_pages, "limits"),
    ];
    for (of_pod, of_containers, list) in together {
        for (name, sum) in of_containers.iter() {
            let own = of_pod.as_ref().and_then(|of_pod| of_pod.get(name));
            if let Some(own) = own.filter(|own| Quantity::parse(&own.0).is_ok_and(|own| sum > own)) {
                let rule = format!("must be greater than or equal to aggregate container {list} of {sum}");
                errors.push(FieldError::invalid(&path.child(list).key(name), &own.0, rule));
            }
        }
    }
    for (index, container) in spec.containers.iter().enumerate() {
        let limits = container.resources.iter().filter_map(|own| own.limits.as_ref()).flatten();
        for (name, limit) in limits {
            let own = whole.limits.as_ref().and_then(|limits| limits.get(name));
            let own = own.and_then(|own| Quantity::parse(&own.0).ok());
            if let (Some(own), Ok(amount)) = (own, Quantity::parse(&limit.0))
                && amount > own
            {
                let path = path.child("containers").index(index).key(name).child("limits");
                let rule = format!("must be less than or equal to pod limits of {own}");
                errors.push(FieldError::invalid(&path, &limit.0, rule));
            }
        }
    }
}

/// Whether a pod as a whole can have this resource.
fn is_of_pod(resource: &str) -> bool {
    matches!(resource, "cpu" | "memory") || resource.starts_with(HUGE_PAGES)
}

/// Checks the overhead of a pod (KEP-688): names and amounts.
pub(super) fn check_overhead(
    overhead: &BTreeMap<String, WireQuantity>,
    path: &FieldPath,
    errors: &mut Errors,
) {
    parsed(overhead.iter(), path, errors);
}

/// The valid amounts, by resource.
fn parsed<'r>(
    resources: impl Iterator<Item = (&'r String, &'r WireQuantity)>,
    path: &FieldPath,
    errors: &mut Errors,
) -> BTreeMap<&'r str, Quantity> {
    let mut amounts = BTreeMap::new();
    for (name, written) in resources {
        let path = path.key(name);
        check_name(name, &path, errors);
        match Quantity::parse(&written.0) {
            Err(error) => errors.push(FieldError::invalid(&path, &written.0, error)),
            Ok(amount) if amount.is_negative() => {
                errors.push(FieldError::invalid(&path, &written.0, "must be greater than or equal to 0"));
            }
            Ok(amount) => {
                if !STANDARD.contains(&name.as_str()) && !amount.is_whole() {
                    errors.push(FieldError::invalid(&path, &written.0, "must be an integer"));
                }
                if !is_whole_pages(name, amount) {
                    let rule = format!("{amount} is not positive integer multiple of {name}");
                    errors.push(FieldError::invalid(&path, amount.to_string(), rule));
                }
                amounts.insert(name.as_str(), amount);
            }
        }
    }
    amounts
}

/// Whether an amount in huge pages is a multiple of their size; true for any other resource.
fn is_whole_pages(name: &str, amount: Quantity) -> bool {
    let size = name.strip_prefix(HUGE_PAGES).and_then(|size| Quantity::parse(size).ok());
    size.is_none_or(|size| size.value() <= 0 || amount.value() % size.value() == 0)
}

fn check_name(name: &str, path: &FieldPath, errors: &mut Errors) {
    each_invalid(errors, path, name, names::qualified_name(name));
    if let Some(size) = name.strip_prefix(HUGE_PAGES) {
        let whole = Quantity::parse(size).is_ok_and(|size| size.value() > 0 && size.is_whole());
        if !whole {
            errors.push(FieldError::invalid(path, name, "must name a page size, like hugepages-2Mi"));
        }
    } else if !name.contains('/') && !STANDARD.contains(&name) {
        errors.push(FieldError::invalid(path, name, "must be a standard resource for containers"));
    }
}
