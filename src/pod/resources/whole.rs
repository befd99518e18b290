//! The resources of a pod as a whole, as its status tells them: the sums over its containers, of every resource.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Pod, ResourceRequirements};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity as ApiQuantity;

use super::amounts::{Together, together};
use crate::types::Quantity;

/// What all containers of the pod request and are limited to. A stock kubelet tells the limits of the pod's cgroup in
/// place of these once it has read them, so a number that means none on version 1; these are what was asked for.
pub fn whole_resources(pod: &Pod) -> ResourceRequirements {
    let of_lists = |list: fn(&ResourceRequirements) -> Option<&BTreeMap<String, ApiQuantity>>| {
        let sums = together(pod, |container| Sums::of(container.resources.as_ref().and_then(list)), |_| {});
        let written = sums.0.into_iter().map(|(name, amount)| (name, ApiQuantity(amount.to_string())));
        let written: BTreeMap<String, ApiQuantity> = written.collect();
        (!written.is_empty()).then_some(written)
    };
    ResourceRequirements {
        limits: of_lists(|resources| resources.limits.as_ref()),
        requests: of_lists(|resources| resources.requests.as_ref()),
        claims: None,
    }
}

/// Amounts by resource.
#[derive(Clone, Debug, Default)]
struct Sums(BTreeMap<String, Quantity>);

impl Sums {
    /// One that cannot be read, which validation has ruled out, is left out.
    fn of(list: Option<&BTreeMap<String, ApiQuantity>>) -> Self {
        let read =
            |(name, amount): (&String, &ApiQuantity)| Some((name.clone(), Quantity::parse(&amount.0).ok()?));
        Self(list.into_iter().flatten().filter_map(read).collect())
    }

    fn merge(mut self, other: Self, merge: impl Fn(Quantity, Quantity) -> Quantity) -> Self {
        for (name, amount) in other.0 {
            let both = self.0.get(&name).map_or(amount, |own| merge(*own, amount));
            self.0.insert(name, both);
        }
        self
    }
}

impl Together for Sums {
    fn plus(self, other: Self) -> Self {
        self.merge(other, Quantity::plus)
    }

    fn max(self, other: Self) -> Self {
        self.merge(other, |a, b| if a < b { b } else { a })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::pod::resources::testing::pod;

    fn told(containers: Value) -> Value {
        serde_json::to_value(whole_resources(&pod(json!({"containers": containers})))).unwrap()
    }

    #[test]
    fn every_resource_of_every_container_counts() {
        let first = json!({"requests": {"cpu": "100m", "memory": "32Mi", "ephemeral-storage": "10Mi"}, "limits": {"cpu": "250m"}});
        let second = json!({"requests": {"cpu": "1"}, "limits": {"cpu": "2", "memory": "64Mi"}});
        assert_eq!(
            told(
                json!([{"name": "a", "resources": first}, {"name": "b", "resources": second}, {"name": "c"}])
            ),
            json!({
                "requests": {"cpu": "1100m", "memory": "32Mi", "ephemeral-storage": "10Mi"},
                "limits": {"cpu": "2250m", "memory": "64Mi"}
            })
        );
        assert_eq!(told(json!([{"name": "a"}])), json!({}));
    }
}
