//! Requests and limits: names, amounts, and that no request exceeds its limit.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::ResourceRequirements;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity as WireQuantity;

use super::{Errors, FieldError, FieldPath, each_invalid, names};
use crate::types::Quantity;
use crate::types::resources::HUGE_PAGES;

/// The resources of every node. All others are devices or other extended resources.
const STANDARD: [&str; 3] = ["cpu", "memory", "ephemeral-storage"];

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
                amounts.insert(name.as_str(), amount);
            }
        }
    }
    amounts
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
