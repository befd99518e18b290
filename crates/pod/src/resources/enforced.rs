//! CPU and memory that are enforced for a container or a pod, as numbers: what an in-place resize compares and changes.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Container, Pod, ResourceRequirements};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity as ApiQuantity;
use serde::{Deserialize, Serialize};

use super::amounts::Amounts;
use crate::view::PodView;
use hostlet_base::Quantity;
use hostlet_base::resources::{CPU, MEMORY};

/// CPU in thousandths of a core and memory in bytes; 0 is none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Enforced {
    /// Requested CPU, millicores.
    pub cpu_request: i64,
    /// Limit of CPU, millicores.
    pub cpu_limit: i64,
    /// Requested memory, bytes.
    pub memory_request: i64,
    /// Limit of memory, bytes.
    pub memory_limit: i64,
}

/// CPU or memory: they are resized one after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resizable {
    /// Request and limit of CPU.
    Cpu,
    /// Request and limit of memory.
    Memory,
}

impl Resizable {
    /// Its name in resource lists.
    pub fn name(self) -> &'static str {
        match self {
            Self::Cpu => CPU,
            Self::Memory => MEMORY,
        }
    }
}

impl Enforced {
    /// Requests and limits of a container. The pod's limits apply where it has none of its own.
    pub fn of(pod: &Pod, container: &Container) -> Self {
        let own = container.resources.as_ref();
        let (requests, limits) = (Amounts::requested(own), Amounts::limited(own));
        let of_pod = Amounts::limited(PodView::from(pod).spec.resources.as_ref());
        let set = |own: Option<i64>, pod: Option<i64>| own.filter(|own| *own != 0).or(pod).unwrap_or(0);
        Self {
            cpu_request: requests.milli_cpu.unwrap_or(0),
            cpu_limit: set(limits.milli_cpu, of_pod.milli_cpu),
            memory_request: requests.memory.unwrap_or(0),
            memory_limit: set(limits.memory, of_pod.memory),
        }
    }

    /// A copy that has the amounts of one resource from `other`.
    pub fn with(self, resource: Resizable, other: Self) -> Self {
        match resource {
            Resizable::Cpu => Self { cpu_request: other.cpu_request, cpu_limit: other.cpu_limit, ..self },
            Resizable::Memory => {
                Self { memory_request: other.memory_request, memory_limit: other.memory_limit, ..self }
            }
        }
    }

    /// Request and limit of one resource.
    pub fn amounts(&self, resource: Resizable) -> (i64, i64) {
        match resource {
            Resizable::Cpu => (self.cpu_request, self.cpu_limit),
            Resizable::Memory => (self.memory_request, self.memory_limit),
        }
    }

    /// `resources` with these amounts in the lists that it has. What is not enforced stays as it is.
    pub fn shown_in(&self, resources: &ResourceRequirements) -> ResourceRequirements {
        ResourceRequirements {
            limits: resources.limits.clone().map(|list| set(list, self.cpu_limit, self.memory_limit)),
            requests: resources.requests.clone().map(|list| set(list, self.cpu_request, self.memory_request)),
            claims: resources.claims.clone(),
        }
    }

    /// `resources` with these amounts.
    pub fn set_in(&self, resources: Option<&ResourceRequirements>) -> ResourceRequirements {
        let mut all = resources.cloned().unwrap_or_default();
        for list in [all.limits.get_or_insert_default(), all.requests.get_or_insert_default()] {
            list.retain(|name, _| name != CPU && name != MEMORY);
        }
        self.shown_in(&all)
    }
}

/// A list with these amounts. Equal ones keep their notation.
fn set(mut list: BTreeMap<String, ApiQuantity>, cpu: i64, memory: i64) -> BTreeMap<String, ApiQuantity> {
    let natural = |amount: i64| u64::try_from(amount).unwrap_or(0);
    for (name, amount) in [(CPU, Quantity::milli(natural(cpu))), (MEMORY, Quantity::bytes(natural(memory)))] {
        let listed = list.get(name).and_then(|listed| Quantity::parse(&listed.0).ok());
        if amount.milli_value() != 0 && listed.as_ref() != Some(&amount) {
            list.insert(name.to_owned(), ApiQuantity(amount.to_string()));
        }
    }
    list
}

/// What was last enforced for a pod: for its containers by name, and for the pod as a whole. Amounts of a container apply to its
/// instance while it runs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Actuated {
    /// For its containers, by name.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub containers: BTreeMap<String, Enforced>,
    /// For the pod as a whole: its cgroup.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pod: Option<Enforced>,
    /// The resize under way.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resize: Option<ResizeUnderWay>,
}

/// A resize that was allocated and is not enforced everywhere.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ResizeUnderWay {
    /// The generation of the pod that requested it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub generation: Option<i64>,
    /// Why the last attempt failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::resources::testing::pod;

    #[test]
    fn the_pods_limit_applies_to_containers_without_their_own() {
        let pod = pod(json!({
            "resources": {"limits": {"cpu": "2", "memory": "8Mi"}},
            "containers": [{"name": "a", "resources": {"requests": {"cpu": "1"}, "limits": {"memory": "4Mi"}}}]
        }));
        let of = Enforced::of(&pod, &pod.spec.as_ref().unwrap().containers[0]);
        let expected =
            Enforced { cpu_request: 1000, cpu_limit: 2000, memory_request: 0, memory_limit: 4 << 20 };
        assert_eq!(of, expected);
        let smaller = Enforced { memory_limit: 1, cpu_limit: 5, ..of };
        assert_eq!(of.with(Resizable::Memory, smaller), Enforced { memory_limit: 1, ..of });
        assert_eq!(of.with(Resizable::Cpu, smaller), Enforced { cpu_limit: 5, ..of });
    }

    #[test]
    fn shown_amounts_replace_those_of_the_lists_and_keep_equal_notations() {
        let allocated: ResourceRequirements = serde_json::from_value(json!({
            "requests": {"cpu": "1000m", "ephemeral-storage": "1Gi"}, "limits": {"cpu": "2", "memory": "1Gi"}
        }))
        .unwrap();
        let actual =
            Enforced { cpu_request: 1000, cpu_limit: 500, memory_request: 0, memory_limit: 64 << 20 };
        let shown = serde_json::to_value(actual.shown_in(&allocated)).unwrap();
        let expected = json!({
            "requests": {"cpu": "1000m", "ephemeral-storage": "1Gi"}, "limits": {"cpu": "500m", "memory": "64Mi"}
        });
        assert_eq!(shown, expected);
        let set = actual.set_in(Some(&allocated));
        assert_eq!(set.requests.unwrap()["cpu"].0, "1");
        let unlimited = Enforced { cpu_limit: 0, memory_limit: 0, ..actual };
        assert_eq!(unlimited.shown_in(&allocated).limits, allocated.limits);
        assert_eq!(unlimited.set_in(Some(&allocated)).limits, Some(BTreeMap::new()));
    }
}
