//! Metrics of what pods are granted exclusively. The names are upstream's.

use std::collections::BTreeMap;
use std::time::Duration;

use hostlet_telemetry::{Metrics, PlainCounter};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};

use super::numa::NumaGrants;

/// The scope of an alignment, and what was aligned with.
type Alignment = [(&'static str, &'static str); 2];

const CONTAINER: &str = "container";
const POD: &str = "pod";
const NUMA_NODE: &str = "numa_node";
const PHYSICAL_CPU: &str = "physical_cpu";
const UNCORE_CACHE: &str = "uncore_cache";

/// Two labels of a counter of the resource managers.
type Managed = [(&'static str, &'static str); 2];

/// For what NUMA nodes or cores are aligned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Aligned {
    /// All resources of a container, with NUMA nodes.
    Container,
    /// All resources of a pod, with NUMA nodes.
    Pod,
    /// The CPUs of a container, with cores.
    Cores,
    /// The CPUs of a container, or of a pod with CPUs of its own, with a last-level cache. That they are not is no failure.
    Cache,
}

impl Aligned {
    fn labels(self) -> Alignment {
        let (scope, boundary) = match self {
            Self::Container => (CONTAINER, NUMA_NODE),
            Self::Pod => (POD, NUMA_NODE),
            Self::Cores => (CONTAINER, PHYSICAL_CPU),
            Self::Cache => (CONTAINER, UNCORE_CACHE),
        };
        [("boundary", boundary), ("scope", scope)]
    }
}

/// A resource that a manager grants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ManagedResource {
    Cpu,
    Memory,
}

impl ManagedResource {
    fn label(self) -> (&'static str, &'static str) {
        let name = match self {
            Self::Cpu => "cpu",
            Self::Memory => "memory",
        };
        ("resource_name", name)
    }
}

/// Of what something is granted: of what the node has, or of what a pod has and divides among its containers.
const NODE: (&str, &str) = ("source", "node");
const OF_POD: (&str, &str) = ("source", "pod");

/// What was requested, granted and rejected. Clones share it.
#[derive(Clone, Debug)]
pub(crate) struct GrantMetrics {
    requests: Counter,
    errors: Counter,
    milliseconds: Histogram,
    aligned: Family<Alignment, PlainCounter>,
    unaligned: Family<Alignment, PlainCounter>,
    cpu_requests: Counter,
    cpu_errors: Counter,
    memory_requests: Counter,
    memory_errors: Counter,
    allocations: Family<Managed, Counter>,
    allocation_errors: Family<Managed, Counter>,
    assignments: Family<Managed, Counter>,
}

impl Default for GrantMetrics {
    fn default() -> Self {
        let (aligned, unaligned) = (Family::default(), Family::default());
        for alignment in [Aligned::Container, Aligned::Pod, Aligned::Cores] {
            // Upstream shows them from the start.
            drop(aligned.get_or_create(&alignment.labels()));
            drop(unaligned.get_or_create(&alignment.labels()));
        }
        Self {
            requests: Counter::default(),
            errors: Counter::default(),
            milliseconds: Histogram::new(exponential_buckets(0.05, 2.0, 15)),
            aligned,
            unaligned,
            cpu_requests: Counter::default(),
            cpu_errors: Counter::default(),
            memory_requests: Counter::default(),
            memory_errors: Counter::default(),
            allocations: Family::default(),
            allocation_errors: Family::default(),
            assignments: Family::default(),
        }
    }
}

impl GrantMetrics {
    pub(crate) fn register(&self, metrics: &Metrics, numa: &NumaGrants) {
        let counters = [
            (
                "kubelet_topology_manager_admission_requests",
                "The number of admission requests where resources have to be aligned",
                &self.requests,
            ),
            (
                "kubelet_topology_manager_admission_errors",
                "The number of admission request failures where resources could not be aligned",
                &self.errors,
            ),
            (
                "kubelet_cpu_manager_pinning_requests",
                "The number of cpu core allocations which required pinning",
                &self.cpu_requests,
            ),
            (
                "kubelet_cpu_manager_pinning_errors",
                "The number of cpu core allocations which required pinning failed",
                &self.cpu_errors,
            ),
            (
                "kubelet_memory_manager_pinning_requests",
                "The number of memory pages allocations which required pinning",
                &self.memory_requests,
            ),
            (
                "kubelet_memory_manager_pinning_errors",
                "The number of memory pages allocations which required pinning that failed",
                &self.memory_errors,
            ),
        ];
        for (name, help, counter) in counters {
            metrics.register(name, help, counter.clone());
        }
        let help = "Duration in milliseconds to serve a pod admission request";
        metrics.register("kubelet_topology_manager_admission_duration_ms", help, self.milliseconds.clone());
        let help = "Cumulative number of aligned compute resources allocated to containers by alignment type";
        metrics.register("kubelet_container_aligned_compute_resources_count", help, self.aligned.clone());
        let help = "Cumulative number of failures to allocate aligned compute resources to containers by alignment type";
        let name = "kubelet_container_aligned_compute_resources_failure_count";
        metrics.register(name, help, self.unaligned.clone());
        if numa.settings().cpus.is_some() {
            // As upstream, which counts no failure.
            drop(self.aligned.get_or_create(&Aligned::Cache.labels()));
        }
        if numa.settings().managers.pod_level {
            self.register_managers(metrics);
        }
        register_cpus(metrics, numa);
    }

    /// What upstream has with the feature gate `PodLevelResourceManagers` only.
    fn register_managers(&self, metrics: &Metrics) {
        let counters = [
            (
                "kubelet_resource_manager_allocations",
                "Number of exclusive resource allocations performed by a resource manager",
                &self.allocations,
            ),
            (
                "kubelet_resource_manager_allocation_errors",
                "Number of errors encountered during exclusive resource allocation",
                &self.allocation_errors,
            ),
            (
                "kubelet_resource_manager_container_assignments",
                "Number of containers with a specific type of resource assignment",
                &self.assignments,
            ),
        ];
        for (name, help, family) in counters {
            metrics.register(name, help, family.clone());
        }
    }

    /// A pod is about to be admitted.
    pub(crate) fn requested(&self) {
        self.requests.inc();
    }

    /// A pod was granted what it needs, or not, after this time.
    pub(super) fn decided(&self, is_granted: bool, took: Duration) {
        self.milliseconds.observe(took.as_secs_f64() * 1000.0);
        if !is_granted {
            self.errors.inc();
        }
    }

    /// Something was aligned, or could not be.
    pub(super) fn aligned(&self, what: Aligned, is_aligned: bool) {
        let counters = if is_aligned { &self.aligned } else { &self.unaligned };
        counters.get_or_create(&what.labels()).inc();
    }

    /// A container was granted what it needs of a resource of the node, in this number of allocations; `None` if it was granted nothing.
    pub(super) fn granted(&self, resource: ManagedResource, allocations: Option<u64>) {
        let labels = [resource.label(), NODE];
        match allocations {
            Some(allocations) => {
                self.allocations.get_or_create(&labels).inc_by(allocations);
                self.assigned(resource, "node_exclusive");
            }
            None => {
                self.allocation_errors.get_or_create(&labels).inc();
            }
        }
    }

    /// A container was granted some of what its pod has of a resource, for itself or not; or the pod was granted nothing.
    pub(super) fn granted_whole(&self, resource: ManagedResource, is_exclusive: Option<bool>) {
        let labels = [resource.label(), OF_POD];
        match is_exclusive {
            Some(is_exclusive) => {
                self.allocations.get_or_create(&labels).inc();
                self.assigned(resource, if is_exclusive { "pod_exclusive" } else { "pod_shared" });
            }
            None => {
                self.allocation_errors.get_or_create(&labels).inc();
            }
        }
    }

    fn assigned(&self, resource: ManagedResource, kind: &'static str) {
        self.assignments.get_or_create(&[("assignment_type", kind), resource.label()]).inc();
    }

    /// A container needed CPUs of its own.
    pub(super) fn pinned_cpus(&self, is_granted: bool) {
        self.cpu_requests.inc();
        if !is_granted {
            self.cpu_errors.inc();
        }
    }

    /// A container needed memory of certain NUMA nodes.
    pub(super) fn pinned_memory(&self, is_granted: bool) {
        self.memory_requests.inc();
        if !is_granted {
            self.memory_errors.inc();
        }
    }
}

fn register_cpus(metrics: &Metrics, numa: &NumaGrants) {
    let number = |count: usize| u64::try_from(count).unwrap_or(u64::MAX);
    let read = numa.clone();
    let help = "The size of the shared CPU pool for non-guaranteed QoS pods, in millicores.";
    metrics.register_gauge("kubelet_cpu_manager_shared_pool_size_millicores", help, move || {
        let shared = read.managers().cpus.map_or(0, |cpus| number(cpus.free().len()).saturating_mul(1000));
        vec![(Vec::new(), shared)]
    });
    let read = numa.clone();
    let help = "The total number of CPUs exclusively allocated to containers running on this node";
    metrics.register_gauge("kubelet_cpu_manager_exclusive_cpu_allocation_count", help, move || {
        vec![(Vec::new(), read.managers().cpus.map_or(0, |cpus| number(cpus.state().exclusive().len())))]
    });
    let read = numa.clone();
    let help = "Number of CPUs allocated per NUMA node";
    metrics.register_gauge("kubelet_cpu_manager_allocation_per_numa", help, move || {
        let Some(cpus) = read.managers().cpus else { return Vec::new() };
        let mut nodes = BTreeMap::<u32, u64>::new();
        for cpu in cpus.state().exclusive().iter() {
            if let Some(place) = cpus.machine().cpus.get(&cpu) {
                *nodes.entry(place.node).or_default() += 1;
            }
        }
        nodes.into_iter().map(|(node, count)| (vec![(NUMA_NODE, node.to_string())], count)).collect()
    });
}
