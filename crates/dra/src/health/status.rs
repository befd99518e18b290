//! The health of a claim's devices as the status of a container reports it (KEP-4680). Pure.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{ResourceHealth, ResourceStatus};
use tokio::time::Instant;

use super::cache::{Cache, Health};
use crate::Device;
use crate::ledger::Claim;
use crate::pod_claims::Use;

/// The status of what a container uses; `None` without a device, and for extended resources, as upstream.
pub(super) fn resource_status(
    cache: &Cache,
    claim: &Claim,
    used: &Use,
    now: Instant,
) -> Option<ResourceStatus> {
    let name = used.resource.clone()?;
    // Devices have the name of the request, not of the subrequest that was chosen.
    let request = used.request.as_deref().map(|request| request.split('/').next().unwrap_or_default());
    let mut seen = BTreeSet::new();
    let resources: Vec<ResourceHealth> = claim
        .devices(request)
        .map(|(driver, device)| health(cache, driver, device, now))
        .filter(|health| seen.insert(health.resource_id.clone()))
        .collect();
    (!resources.is_empty()).then_some(ResourceStatus { name, resources: Some(resources) })
}

fn health(cache: &Cache, driver: &str, device: &Device, now: Instant) -> ResourceHealth {
    let id = (device.pool_name.clone(), device.device_name.clone());
    let report = cache.get(driver, &id, now);
    let health = match report.map_or(Health::Unknown, |report| report.health) {
        Health::Healthy => "Healthy",
        Health::Unhealthy => "Unhealthy",
        Health::Unknown => "Unknown",
    };
    let message = report.map(|report| report.message.clone()).filter(|message| !message.is_empty());
    let resource_id = match device.cdi_device_ids.first() {
        Some(name) => name.clone(),
        None => format!("{driver}/{}/{}", device.pool_name, device.device_name),
    };
    ResourceHealth { health: Some(health.to_owned()), message, resource_id }
}
