//! `/metrics/resource`: CPU, memory and swap of the node, of pods and of containers, for autoscalers. Pure.

use jiff::Timestamp;

use super::exposition::{Family, Kind, epoch, labels, number, seconds};
use crate::stats::{CgroupUsage, ContainerUsage, NodeUsage, PodUsage};

/// A value with the time of its measurement, if it is one.
type Value = (f64, Option<Timestamp>);

/// A family of containers.
struct OfContainers {
    name: &'static str,
    help: &'static str,
    kind: Kind,
    value: fn(&ContainerUsage, &CgroupUsage) -> Option<Value>,
}

/// A family of cgroups: of pods, or of the node.
struct OfUnits {
    name: &'static str,
    help: &'static str,
    kind: Kind,
    value: fn(&CgroupUsage) -> Value,
}

const CONTAINERS: [OfContainers; 5] = [
    OfContainers {
        name: "container_cpu_usage_seconds_total",
        help: "[STABLE] Cumulative cpu time consumed by the container in core-seconds",
        kind: Kind::Counter,
        value: |_, usage| Some(cpu(usage)),
    },
    OfContainers {
        name: "container_memory_working_set_bytes",
        help: "[STABLE] Current working set of the container in bytes",
        kind: Kind::Gauge,
        value: |_, usage| Some(memory(usage)),
    },
    OfContainers {
        name: "container_start_time_seconds",
        help: "[STABLE] Start time of the container since unix epoch in seconds",
        kind: Kind::Gauge,
        value: |container, _| Some((epoch(container.created_at), None)),
    },
    OfContainers {
        name: "container_swap_limit_bytes",
        help: "[ALPHA] Current amount of the container swap limit in bytes. Reported only on non-windows systems",
        kind: Kind::Gauge,
        value: |_, usage| {
            usage.limits.swap.map(|limit| (number(limit.max(usage.memory.swap)), Some(usage.at)))
        },
    },
    OfContainers {
        name: "container_swap_usage_bytes",
        help: "[ALPHA] Current amount of the container swap usage in bytes. Reported only on non-windows systems",
        kind: Kind::Gauge,
        value: |_, usage| Some(swap(usage)),
    },
];

const NODE: [OfUnits; 3] = [
    OfUnits {
        name: "node_cpu_usage_seconds_total",
        help: "[STABLE] Cumulative cpu time consumed by the node in core-seconds",
        kind: Kind::Counter,
        value: cpu,
    },
    OfUnits {
        name: "node_memory_working_set_bytes",
        help: "[STABLE] Current working set of the node in bytes",
        kind: Kind::Gauge,
        value: memory,
    },
    OfUnits {
        name: "node_swap_usage_bytes",
        help: "[ALPHA] Current swap usage of the node in bytes. Reported only on non-windows systems",
        kind: Kind::Gauge,
        value: swap,
    },
];

const PODS: [OfUnits; 3] = [
    OfUnits {
        name: "pod_cpu_usage_seconds_total",
        help: "[STABLE] Cumulative cpu time consumed by the pod in core-seconds",
        kind: Kind::Counter,
        value: cpu,
    },
    OfUnits {
        name: "pod_memory_working_set_bytes",
        help: "[STABLE] Current working set of the pod in bytes",
        kind: Kind::Gauge,
        value: memory,
    },
    OfUnits {
        name: "pod_swap_usage_bytes",
        help: "[ALPHA] Current amount of the pod swap usage in bytes. Reported only on non-windows systems",
        kind: Kind::Gauge,
        value: swap,
    },
];

fn cpu(usage: &CgroupUsage) -> Value {
    (seconds(usage.cpu.total), Some(usage.at))
}

fn memory(usage: &CgroupUsage) -> Value {
    (number(usage.memory.working_set), Some(usage.at))
}

fn swap(usage: &CgroupUsage) -> Value {
    (number(usage.memory.swap), Some(usage.at))
}

/// The whole answer; without usage if that could not be measured.
pub(super) fn render(usage: Option<&NodeUsage>) -> String {
    let mut text = String::new();
    if let Some(usage) = usage {
        // Like upstream's summary: pods of which nothing runs are not in it.
        let pods: Vec<&PodUsage> = usage.pods.iter().filter(|pod| !pod.containers.is_empty()).collect();
        for family in CONTAINERS {
            of_containers(&mut text, &family, &pods);
        }
        for OfUnits { name, help, kind, value } in NODE {
            let (value, at) = value(&usage.root.usage);
            Family::new(&mut text, name, help, kind).sample(&[], value, at);
        }
        for OfUnits { name, help, kind, value } in PODS {
            let mut family = Family::new(&mut text, name, help, kind);
            for (pod, usage) in pods.iter().filter_map(|pod| Some((&pod.pod, pod.usage()?))) {
                let labels = labels(&[("namespace", &pod.namespace), ("pod", &pod.name)]);
                let (value, at) = value(&usage);
                family.sample(&[&labels], value, at);
            }
        }
    }
    let help = "[STABLE] 1 if there was an error while getting container metrics, 0 otherwise";
    let is_failed = if usage.is_some() { 0.0 } else { 1.0 };
    Family::new(&mut text, "resource_scrape_error", help, Kind::Gauge).sample(&[], is_failed, None);
    text
}

fn of_containers(text: &mut String, family: &OfContainers, pods: &[&PodUsage]) {
    let OfContainers { name, help, kind, value } = *family;
    let mut samples = Family::new(text, name, help, kind);
    for pod in pods {
        for container in &pod.containers {
            let Some((value, at)) = container.unit.as_ref().and_then(|unit| value(container, &unit.usage))
            else {
                continue;
            };
            let of_pod = [("namespace", &*pod.pod.namespace), ("pod", &*pod.pod.name)];
            samples.sample(&[&labels(&[("container", &*container.name), of_pod[0], of_pod[1]])], value, at);
        }
    }
}
