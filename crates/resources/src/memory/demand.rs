//! How much memory containers and pods have for themselves: all that guaranteed pods request, huge pages included.

use std::collections::BTreeMap;

use hostlet_base::Quantity;
use hostlet_pod::view::PodView;
use k8s_openapi::api::core::v1::{Container, Pod, ResourceRequirements};

use crate::containers::{
    has_own_resources, init_containers, is_guaranteed_alone, is_memory, is_sidecar, main_containers,
};
use crate::error::GrantError;

/// Bytes by resource.
pub(super) type Demand = BTreeMap<String, u64>;

/// What a container of a guaranteed pod has for itself. `pod_level` is the feature gate `PodLevelResourceManagers`.
pub(super) fn container_memory(
    pod: &Pod,
    container: &Container,
    pod_level: bool,
) -> Result<Demand, GrantError> {
    if pod_level && has_own_resources(pod) && !is_guaranteed_alone(container) {
        return Ok(Demand::new());
    }
    requests(container.resources.as_ref())
}

/// What a guaranteed pod needs at once.
pub(super) fn pod_memory(pod: &Pod, pod_level: bool) -> Result<Demand, GrantError> {
    if pod_level && has_own_resources(pod) {
        let mut own = requests(PodView::from(pod).spec.resources.as_ref())?;
        own.retain(|_, bytes| *bytes > 0);
        return Ok(own);
    }
    let (mut sidecars, mut peak, mut main) = (Demand::new(), Demand::new(), Demand::new());
    for container in init_containers(pod) {
        for (resource, bytes) in container_memory(pod, container, pod_level)? {
            let before = sidecars.entry(resource.clone()).or_default();
            if is_sidecar(container) {
                *before += bytes;
            } else {
                let peak = peak.entry(resource).or_default();
                *peak = (*peak).max(*before + bytes);
            }
        }
    }
    for container in main_containers(pod) {
        for (resource, bytes) in container_memory(pod, container, pod_level)? {
            *main.entry(resource).or_default() += bytes;
        }
    }
    // What only init containers need is not considered, as upstream.
    for (resource, bytes) in &mut main {
        let of = |demand: &Demand| demand.get(resource).copied().unwrap_or_default();
        *bytes = (*bytes + of(&sidecars)).max(of(&peak));
    }
    Ok(main)
}

/// Whether a pod with memory of its own leaves some to those of its containers that share it.
pub(super) fn check_shared(pod: &Pod) -> Result<(), GrantError> {
    let all = pod_memory(pod, true)?;
    let (mut shares, mut taken) = (false, Demand::new());
    let exhausted = |taken: &Demand| {
        let is_exhausted = |(resource, bytes): &(&String, &u64)| taken.get(*resource).unwrap_or(&0) >= *bytes;
        all.iter().find(is_exhausted).map(|(resource, _)| resource.clone())
    };
    let add = |taken: &mut Demand, own: Demand| {
        for (resource, bytes) in own {
            *taken.entry(resource).or_default() += bytes;
        }
    };
    for container in init_containers(pod) {
        let own = container_memory(pod, container, true)?;
        if is_sidecar(container) {
            shares |= own.is_empty();
            add(&mut taken, own);
        } else if let Some(resource) = exhausted(&taken).filter(|_| own.is_empty()) {
            return Err(GrantError::NothingForInitContainers(resource));
        }
    }
    for container in main_containers(pod) {
        let own = container_memory(pod, container, true)?;
        shares |= own.is_empty();
        add(&mut taken, own);
    }
    match exhausted(&taken).filter(|_| shares) {
        Some(resource) => Err(GrantError::NoSharedMemory(resource)),
        None => Ok(()),
    }
}

fn requests(resources: Option<&ResourceRequirements>) -> Result<Demand, GrantError> {
    let requests = resources.and_then(|resources| resources.requests.as_ref()).into_iter().flatten();
    let bytes = |text: &str| {
        let amount = Quantity::parse(text).ok().filter(Quantity::is_whole)?;
        u64::try_from(amount.value()).ok()
    };
    let requests = requests.filter(|(resource, _)| is_memory(resource));
    requests
        .map(|(resource, amount)| Ok((resource.clone(), bytes(&amount.0).ok_or(GrantError::NotBytes)?)))
        .collect()
}
