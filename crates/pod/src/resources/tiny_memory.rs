//! Memory limits that are too low to start anything, such as `100m`, a tenth of a byte. The API permits them, and the kernel kills
//! what the runtime starts, with a message that does not mention memory. Rejects nothing.

use hostlet_base::resources::MEMORY;
use k8s_openapi::api::core::v1::{Pod, ResourceRequirements};

use super::amounts::Amounts;
use crate::view::PodView;

/// The least memory with which runtimes start a process, in bytes: Docker accepts no lower limit.
const LEAST: i64 = 6 << 20;

/// Names the limits of the pod that are too low; `None` if there are none. For messages about a failed start.
pub fn tiny_memory_limits(pod: &Pod) -> Option<String> {
    let spec = PodView::from(pod).spec;
    let of_pod = tiny(spec.resources.as_ref()).map(|limit| format!("{limit} of the pod"));
    let containers = spec.init_containers.iter().flatten().chain(&spec.containers);
    let of_containers = containers.filter_map(|container| {
        Some(format!("{} of container {}", tiny(container.resources.as_ref())?, container.name))
    });
    let all: Vec<String> = of_pod.into_iter().chain(of_containers).collect();
    (!all.is_empty()).then(|| format!("no container can start with this limits.memory: {}", all.join(", ")))
}

/// The limit as it is written, if it is too low.
fn tiny(resources: Option<&ResourceRequirements>) -> Option<&str> {
    let limit = Amounts::limited(resources).memory?;
    let is_tiny = (1..LEAST).contains(&limit);
    let written = resources?.limits.as_ref()?.get(MEMORY)?;
    is_tiny.then_some(written.0.as_str())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_limits_that_no_process_starts_with_are_named() {
        let named = |limits: &[Option<&str>]| {
            let container = |(at, limit): (usize, &Option<&str>)| {
                let limits = limit.map_or(json!({}), |limit| json!({"limits": {"memory": limit}}));
                json!({"name": format!("c{at}"), "resources": limits})
            };
            let containers: Vec<_> = limits.iter().enumerate().map(container).collect();
            tiny_memory_limits(&serde_json::from_value(json!({"spec": {"containers": containers}})).unwrap())
        };
        assert_eq!(named(&[None, Some("0"), Some("6Mi"), Some("1Gi")]), None);
        let text =
            "no container can start with this limits.memory: 100m of container c0, 1Mi of container c2";
        assert_eq!(named(&[Some("100m"), Some("8Mi"), Some("1Mi")]).as_deref(), Some(text));
    }
}
