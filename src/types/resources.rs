//! Amounts of resources by name, and what the names say. Nobody lists the resources there are: one more is one more name.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::api::resource::Quantity as ApiQuantity;

use super::Quantity;

/// Time of CPUs, in cores.
pub const CPU: &str = "cpu";
/// Memory, in bytes.
pub const MEMORY: &str = "memory";
/// Space on the filesystem of logs, writable layers and `emptyDir` volumes, in bytes.
pub const EPHEMERAL_STORAGE: &str = "ephemeral-storage";
/// Pods: how many a node takes.
pub const PODS: &str = "pods";
/// Processes and threads, which are reserved by this name and requested by nobody.
pub const PID: &str = "pid";
/// How the names of huge pages begin; the page size follows, as in `hugepages-2Mi`.
pub const HUGE_PAGES: &str = "hugepages-";

/// Whether a resource is one that somebody added to Kubernetes' own: a device, a license (upstream
/// `IsExtendedResourceName`).
pub fn is_extended(resource: &str) -> bool {
    !is_native(resource) && !resource.starts_with("requests.")
}

/// Whether a resource is one of Kubernetes' own (upstream `IsNativeResource`).
pub fn is_native(resource: &str) -> bool {
    !resource.contains('/') || resource.contains("kubernetes.io/")
}

/// An amount in the units in which a resource is counted and compared: thousandths of a CPU, whole units of all else, rounded
/// up.
pub fn in_units(resource: &str, amount: Quantity) -> i64 {
    match resource {
        CPU => amount.milli_value(),
        _ => amount.value(),
    }
}

/// Amounts by resource, in order of the names. A resource that is not listed is another thing than one of which there
/// is nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResourceList(BTreeMap<String, Quantity>);

impl ResourceList {
    /// The amounts in a list of the API. One that cannot be read, which validation has ruled out, is left out.
    pub fn read(list: Option<&BTreeMap<String, ApiQuantity>>) -> Self {
        let amount = |(name, written): (&String, &ApiQuantity)| {
            Some((name.clone(), Quantity::parse(&written.0).ok()?))
        };
        Self(list.into_iter().flatten().filter_map(amount).collect())
    }

    /// The list as the API has it.
    pub fn written(&self) -> BTreeMap<String, ApiQuantity> {
        self.iter().map(|(name, amount)| (name.to_owned(), ApiQuantity(amount.to_string()))).collect()
    }

    /// How much there is of a resource; none if it is not listed.
    pub fn get(&self, name: &str) -> Option<Quantity> {
        self.0.get(name).copied()
    }

    /// The same in the units of [`in_units`]; of a resource that is not listed there is nothing.
    pub fn units(&self, name: &str) -> i64 {
        self.get(name).map_or(0, |amount| in_units(name, amount))
    }

    /// Whether a resource is listed.
    pub fn contains(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    /// Whether none is.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Lists a resource, with this amount of it whatever there was.
    pub fn set(&mut self, name: impl Into<String>, amount: Quantity) {
        self.0.insert(name.into(), amount);
    }

    /// Resources and their amounts, in order of the names.
    pub fn iter(&self) -> impl Iterator<Item = (&str, Quantity)> {
        self.0.iter().map(|(name, amount)| (name.as_str(), *amount))
    }

    /// The resources that `wanted` picks.
    #[must_use]
    pub fn only(mut self, wanted: impl Fn(&str) -> bool) -> Self {
        self.0.retain(|name, _| wanted(name));
        self
    }

    /// The resources of both, with the amounts of `other` where both list one.
    #[must_use]
    pub fn overlaid(mut self, other: Self) -> Self {
        self.0.extend(other.0);
        self
    }

    /// The resources of both, with both amounts together.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        self.merge(other, Quantity::plus)
    }

    /// The resources of both, with the larger of the two amounts.
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
    use crate::types::testing::resource_list;

    #[test]
    fn amounts_go_by_name_whatever_the_name() {
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
    fn a_list_is_written_as_the_api_has_it_and_one_that_cannot_be_read_is_left_out() {
        let list = [("cpu", "1500m"), ("memory", "1024Mi"), ("pods", "many")];
        let list = list.map(|(name, amount)| (name.to_owned(), ApiQuantity(amount.to_owned())));
        let read = ResourceList::read(Some(&list.into()));
        assert_eq!(read, resource_list([("cpu", "1500m"), ("memory", "1Gi")]));
        let written: Vec<(String, String)> = read.written().into_iter().map(|(n, a)| (n, a.0)).collect();
        assert_eq!(written, [("cpu", "1500m"), ("memory", "1Gi")].map(|(n, a)| (n.to_owned(), a.to_owned())));
        assert!(ResourceList::read(None).is_empty());
    }

    #[test]
    fn sums_end_at_what_a_quantity_holds() {
        let huge = resource_list([("cpu", "9E"), ("memory", "9E")]);
        let sum = huge.clone().plus(huge.clone()).plus(huge);
        assert_eq!((sum.units("cpu"), sum.units("memory")), (i64::MAX, i64::MAX));
    }

    #[test]
    fn a_name_says_whose_a_resource_is() {
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
