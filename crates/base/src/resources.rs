//! Amounts of resources by name, and the classes of resource names. Any name is supported.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::api::resource::Quantity as ApiQuantity;

use super::Quantity;

/// CPU, in cores.
pub const CPU: &str = "cpu";
/// Memory, in bytes.
pub const MEMORY: &str = "memory";
/// Storage for logs, writable layers and `emptyDir` volumes, in bytes.
pub const EPHEMERAL_STORAGE: &str = "ephemeral-storage";
/// Number of pods.
pub const PODS: &str = "pods";
/// Processes and threads: can be reserved but not requested.
pub const PID: &str = "pid";
/// Prefix of huge page resources, followed by the page size, as in `hugepages-2Mi`.
pub const HUGE_PAGES: &str = "hugepages-";

/// Whether `resource` is an extended resource, e.g. a device (upstream `IsExtendedResourceName`).
pub fn is_extended(resource: &str) -> bool {
    !is_native(resource) && !resource.starts_with("requests.")
}

/// Whether `resource` is a native resource (upstream `IsNativeResource`).
fn is_native(resource: &str) -> bool {
    !resource.contains('/') || resource.contains("kubernetes.io/")
}

/// An amount in the units for comparisons, rounded up: millicores of CPU, whole units of anything else.
pub fn in_units(resource: &str, amount: Quantity) -> i64 {
    match resource {
        CPU => amount.milli_value(),
        _ => amount.value(),
    }
}

/// Amounts by resource, ordered by name. A missing resource differs from an amount of zero.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResourceList(BTreeMap<String, Quantity>);

impl ResourceList {
    /// Parses an API resource list. Invalid amounts, which validation excludes, are skipped.
    pub fn read(list: Option<&BTreeMap<String, ApiQuantity>>) -> Self {
        let amount = |(name, written): (&String, &ApiQuantity)| {
            Some((name.clone(), Quantity::parse(&written.0).ok()?))
        };
        Self(list.into_iter().flatten().filter_map(amount).collect())
    }

    /// Converts to an API resource list.
    pub fn written(&self) -> BTreeMap<String, ApiQuantity> {
        self.iter().map(|(name, amount)| (name.to_owned(), ApiQuantity(amount.to_string()))).collect()
    }

    /// The amount of a resource, if listed.
    pub fn get(&self, name: &str) -> Option<Quantity> {
        self.0.get(name).copied()
    }

    /// The amount in the units of [`in_units`]; 0 if not listed.
    pub fn units(&self, name: &str) -> i64 {
        self.get(name).map_or(0, |amount| in_units(name, amount))
    }

    /// Whether a resource is listed.
    pub fn contains(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    /// Whether the list is empty.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Sets an amount, in place of an earlier one.
    pub fn set(&mut self, name: impl Into<String>, amount: Quantity) {
        self.0.insert(name.into(), amount);
    }

    /// All resources with their amounts, ordered by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, Quantity)> {
        self.0.iter().map(|(name, amount)| (name.as_str(), *amount))
    }

    /// The resources selected by a predicate.
    #[must_use]
    pub fn only(mut self, is_selected: impl Fn(&str) -> bool) -> Self {
        self.0.retain(|name, _| is_selected(name));
        self
    }

    /// The union; amounts of `other` take precedence.
    #[must_use]
    pub fn overlaid(mut self, other: Self) -> Self {
        self.0.extend(other.0);
        self
    }

    /// The union with summed amounts.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        self.merge(other, Quantity::plus)
    }

    /// The union with the larger amounts.
    #[must_use]
    pub fn max(self, other: Self) -> Self {
        self.merge(other, |a, b| if a < b { b } else { a })
    }

    fn merge(mut self, other: Self, merge: impl Fn(Quantity, Quantity) -> Quantity) -> Self {
        for (name, amount) in other.0 {
            self.0.entry(name).and_modify(|own| *own = merge(*own, amount)).or_insert(amount);
        }
        self
    }
}

impl<N: Into<String>> FromIterator<(N, Quantity)> for ResourceList {
    fn from_iter<T: IntoIterator<Item = (N, Quantity)>>(amounts: T) -> Self {
        Self(amounts.into_iter().map(|(name, amount)| (name.into(), amount)).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::resource_list;

    #[test]
    fn any_resource_name_is_supported() {
        let a = resource_list([("cpu", "500m"), ("example.com/gpu", "1")]);
        let b = resource_list([("cpu", "1"), ("memory", "1Gi")]);
        let sum = resource_list([("cpu", "1500m"), ("example.com/gpu", "1"), ("memory", "1Gi")]);
        assert_eq!(a.clone().plus(b.clone()), sum);
        let larger = resource_list([("cpu", "1"), ("example.com/gpu", "1"), ("memory", "1Gi")]);
        assert_eq!(a.clone().max(b.clone()), larger);
        assert_eq!(a.clone().overlaid(b), larger);
        assert_eq!(a.clone().only(is_native), resource_list([("cpu", "500m")]));
        assert_eq!((a.units("cpu"), a.units("example.com/gpu"), a.units("memory")), (500, 1, 0));
    }

    #[test]
    fn lists_round_trip_and_invalid_amounts_are_skipped() {
        let list = [("cpu", "1500m"), ("memory", "1024Mi"), ("pods", "many")];
        let list = list.map(|(name, amount)| (name.to_owned(), ApiQuantity(amount.to_owned())));
        let read = ResourceList::read(Some(&list.into()));
        assert_eq!(read, resource_list([("cpu", "1500m"), ("memory", "1Gi")]));
        let written: Vec<(String, String)> = read.written().into_iter().map(|(n, a)| (n, a.0)).collect();
        assert_eq!(written, [("cpu", "1500m"), ("memory", "1Gi")].map(|(n, a)| (n.to_owned(), a.to_owned())));
        assert!(ResourceList::read(None).is_empty());
    }

    #[test]
    fn sums_are_capped() {
        let huge = resource_list([("cpu", "9E"), ("memory", "9E")]);
        let sum = huge.clone().plus(huge.clone()).plus(huge);
        assert_eq!((sum.units("cpu"), sum.units("memory")), (i64::MAX, i64::MAX));
    }

    #[test]
    fn names_are_classified() {
        for extended in ["example.com/gpu", "nvidia.com/gpu"] {
            assert!(is_extended(extended), "{extended}");
        }
        for own in
            ["cpu", "hugepages-2Mi", "kubernetes.io/x", "a.kubernetes.io/x", "requests.example.com/gpu"]
        {
            assert!(!is_extended(own), "{own}");
        }
    }
}
