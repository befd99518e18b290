//! Resizes in place of guaranteed pods, whose CPUs and memory are of certain cores and nodes.

use hostlet_base::Quantity;
use hostlet_base::resources::{CPU, MEMORY};
use k8s_openapi::api::core::v1::{Container, Pod};

use crate::containers::{containers, is_guaranteed};

/// Why a pod cannot be resized. Upstream's messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InfeasibleResize {
    /// It would need other CPUs.
    #[error("Resize is infeasible for Guaranteed Pods alongside CPU Manager policy \"static\"")]
    Cpus,
    /// It would need other memory.
    #[error("Resize is infeasible for Guaranteed Pods alongside Memory Manager policy \"Static\"")]
    Memory,
}

/// Why a guaranteed pod cannot be resized from `granted` to `desired` while policies are static; `None` if it can, as far as these go.
/// Both are the same pod.
pub fn infeasible_resize(
    granted: &Pod,
    desired: &Pod,
    static_cpus: bool,
    static_memory: bool,
) -> Option<InfeasibleResize> {
    if !is_guaranteed(desired) {
        return None;
    }
    if static_cpus && differs(granted, desired, CPU) {
        Some(InfeasibleResize::Cpus)
    } else if static_memory && differs(granted, desired, MEMORY) {
        Some(InfeasibleResize::Memory)
    } else {
        None
    }
}

fn differs(granted: &Pod, desired: &Pod, resource: &str) -> bool {
    let request = |container: &Container| {
        let requests = container.resources.as_ref()?.requests.as_ref()?;
        Quantity::parse(&requests.get(resource)?.0).ok()
    };
    let amount = |container: &Container| request(container).unwrap_or(Quantity::count(0));
    containers(desired).any(|desired| {
        let granted = containers(granted).find(|granted| granted.name == desired.name);
        granted.map_or(Quantity::count(0), amount) != amount(desired)
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pod(cpu: &str, memory: &str, limit: &str) -> Pod {
        let resources =
            json!({"requests": {"cpu": cpu, "memory": memory}, "limits": {"cpu": limit, "memory": memory}});
        let spec = json!({"containers": [{"name": "c", "resources": resources}]});
        serde_json::from_value(json!({"metadata": {"name": "p"}, "spec": spec})).unwrap()
    }

    #[test]
    fn static_policies_allow_no_resize_of_what_they_grant() {
        let small = pod("1", "1Gi", "1");
        let infeasible = |desired: &Pod, cpus, memory| infeasible_resize(&small, desired, cpus, memory);
        assert_eq!(infeasible(&pod("2", "2Gi", "2"), true, true), Some(InfeasibleResize::Cpus));
        assert_eq!(infeasible(&pod("2", "2Gi", "2"), false, true), Some(InfeasibleResize::Memory));
        assert_eq!(infeasible(&pod("2", "2Gi", "2"), false, false), None);
        // Only the other resource, only in another notation, and not guaranteed.
        assert_eq!(infeasible(&pod("1", "2Gi", "1"), true, false), None);
        assert_eq!(infeasible(&pod("1000m", "1024Mi", "1"), true, true), None);
        assert_eq!(infeasible(&pod("2", "1Gi", "3"), true, true), None);
    }
}
