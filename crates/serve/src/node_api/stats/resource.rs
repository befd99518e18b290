//! `/metrics/resource`: CPU, memory and swap of the node, of pods and of containers, for autoscalers. Pure.

use hostlet_observe::stats::{CgroupUsage, ContainerUsage, NodeUsage, PodUsage};
use jiff::Timestamp;

use super::exposition::Kind::{Counter, Gauge};
use super::exposition::{Family, FamilyOf, epoch, labels, number, of, seconds};

/// A value with the time of its measurement, if it is one.
type Value = (f64, Option<Timestamp>);

/// The value of a container.
type OfContainer = fn(&ContainerUsage, &CgroupUsage) -> Option<Value>;

/// The value of a cgroup: of a pod, or of the node.
type OfUnit = fn(&CgroupUsage) -> Value;

const CONTAINERS: [FamilyOf<OfContainer>; 5] = [
    of(
        "container_cpu_usage_seconds_total",
        Counter,
        "[STABLE] Cumulative cpu time consumed by the container in core-seconds",
        |_, usage| Some(cpu(usage)),
    ),
    of(
        "container_memory_working_set_bytes",
        Gauge,
        "[STABLE] Current working set of the container in bytes",
        |_, usage| Some(memory(usage)),
    ),
    of(
        "container_start_time_seconds",
        Gauge,
        "[STABLE] Start time of the container since unix epoch in seconds",
        |container, _| Some((epoch(container.created_at), None)),
    ),
    of(
        "container_swap_limit_bytes",
        Gauge,
        "[ALPHA] Current amount of the container swap limit in bytes. Reported only on non-windows systems",
        |_, usage| usage.limits.swap.map(|limit| (number(limit.max(usage.memory.swap)), Some(usage.at))),
    ),
    of(
        "container_swap_usage_bytes",
        Gauge,
        "[ALPHA] Current amount of the container swap usage in bytes. Reported only on non-windows systems",
        |_, usage| Some(swap(usage)),
    ),
];

const NODE: [FamilyOf<OfUnit>; 3] = [
    of(
        "node_cpu_usage_seconds_total",
        Counter,
        "[STABLE] Cumulative cpu time consumed by the node in core-seconds",
        cpu,
    ),
    of("node_memory_working_set_bytes", Gauge, "[STABLE] Current working set of the node in bytes", memory),
    of(
        "node_swap_usage_bytes",
        Gauge,
        "[ALPHA] Current swap usage of the node in bytes. Reported only on non-windows systems",
        swap,
    ),
];

const PODS: [FamilyOf<OfUnit>; 3] = [
    of(
        "pod_cpu_usage_seconds_total",
        Counter,
        "[STABLE] Cumulative cpu time consumed by the pod in core-seconds",
        cpu,
    ),
    of("pod_memory_working_set_bytes", Gauge, "[STABLE] Current working set of the pod in bytes", memory),
    of(
        "pod_swap_usage_bytes",
        Gauge,
        "[ALPHA] Current amount of the pod swap usage in bytes. Reported only on non-windows systems",
        swap,
    ),
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
            of_containers(&mut text, family, &pods);
        }
        for FamilyOf { name, kind, help, source } in NODE {
            let (value, at) = source(&usage.root.usage);
            Family::new(&mut text, name, help, kind).sample(&[], value, at);
        }
        for FamilyOf { name, kind, help, source } in PODS {
            let mut family = Family::new(&mut text, name, help, kind);
            for (pod, usage) in pods.iter().filter_map(|pod| Some((&pod.pod, pod.usage()?))) {
                let labels = labels(&[("namespace", &pod.namespace), ("pod", &pod.name)]);
                let (value, at) = source(&usage);
                family.sample(&[&labels], value, at);
            }
        }
    }
    let help = "[STABLE] 1 if there was an error while getting container metrics, 0 otherwise";
    let is_failed = if usage.is_some() { 0.0 } else { 1.0 };
    Family::new(&mut text, "resource_scrape_error", help, Gauge).sample(&[], is_failed, None);
    text
}

fn of_containers(text: &mut String, family: FamilyOf<OfContainer>, pods: &[&PodUsage]) {
    let FamilyOf { name, kind, help, source } = family;
    let mut samples = Family::new(text, name, help, kind);
    for pod in pods {
        for container in &pod.containers {
            let Some((value, at)) = container.unit.as_ref().and_then(|unit| source(container, &unit.usage))
            else {
                continue;
            };
            let of_pod = [("namespace", &*pod.pod.namespace), ("pod", &*pod.pod.name)];
            samples.sample(&[&labels(&[("container", &*container.name), of_pod[0], of_pod[1]])], value, at);
        }
    }
}
