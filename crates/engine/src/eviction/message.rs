//! What an eviction says of its cause, in upstream's words (`evictionMessage`). Pure.

use std::collections::BTreeMap;
use std::fmt::Write;

use hostlet_base::Quantity;
use hostlet_base::resources::{EPHEMERAL_STORAGE, MEMORY};
use hostlet_base::settings::EvictionThreshold;
use hostlet_pod::AdmittedPod;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity as ApiQuantity;

use super::thresholds::Observations;
use super::usage::{ContainerConsumption, PodConsumption};

/// The message, and the annotations of the event.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Explanation {
    pub(super) message: String,
    pub(super) annotations: BTreeMap<String, String>,
}

/// The first of these thresholds that starves this resource, and what was observed; empty without one.
pub(super) fn cause_of(starved: &str, due: &[EvictionThreshold], observations: &Observations) -> String {
    let cause = due.iter().find(|threshold| threshold.signal.starved_resource() == starved);
    let seen = cause.and_then(|threshold| Some((threshold, observations.get(&threshold.signal)?)));
    let text = seen.map(|(threshold, seen)| {
        format!("Threshold quantity: {}, available: {}. ", threshold.value.of(seen.capacity), seen.available)
    });
    text.unwrap_or_default()
}

/// Explains why this pod is evicted: what is starved, why that is so, and which of its containers use more than they request.
pub(super) fn explain(
    starved: &str,
    cause: &str,
    pod: &AdmittedPod,
    consumption: &PodConsumption,
) -> Explanation {
    let mut message = format!("The node was low on resource: {starved}. {cause}");
    let mut annotations = BTreeMap::new();
    let of_pod = pod.spec().resources.as_ref().and_then(|own| request(own.requests.as_ref(), MEMORY));
    if let (MEMORY, Some(request), Some(usage)) = (starved, of_pod, consumption.memory) {
        let (name, usage) = (&pod.reference.name, Quantity::bytes(usage));
        push(
            &mut message,
            format_args!(
                "Pod {name} was using {usage}, request is {request}, has larger consumption of {starved}. "
            ),
        );
        annotations.insert("offending_pod".to_owned(), name.to_string());
        annotations.insert("offending_pod_usage".to_owned(), usage.to_string());
    }
    let (mut names, mut usages) = (Vec::new(), Vec::new());
    for container in pod.containers() {
        let name = &*container.spec.name;
        let usage = consumption.containers.get(name).and_then(|container| usage(starved, container));
        let resources = container.spec.resources.as_ref();
        let request = resources.and_then(|own| request(own.requests.as_ref(), starved));
        let request = request.unwrap_or_else(|| Quantity::count(0));
        if let Some(usage) = usage.filter(|usage| *usage > request) {
            push(
                &mut message,
                format_args!(
                    "Container {name} was using {usage}, request is {request}, has larger consumption of {starved}. "
                ),
            );
            names.push(name.to_owned());
            usages.push(usage.to_string());
        }
    }
    annotations.insert("offending_containers".to_owned(), names.join(","));
    annotations.insert("offending_containers_usage".to_owned(), usages.join(","));
    annotations.insert("starved_resource".to_owned(), starved.to_owned());
    Explanation { message, annotations }
}

/// What a container uses of a resource that can be requested; `None` of others.
fn usage(starved: &str, container: &ContainerConsumption) -> Option<Quantity> {
    match starved {
        MEMORY => container.memory.map(Quantity::bytes),
        EPHEMERAL_STORAGE => {
            let (layer, logs) = (container.layer?, container.logs?);
            Some(Quantity::bytes(layer.plus(logs).bytes))
        }
        _ => None,
    }
}

fn request(requests: Option<&BTreeMap<String, ApiQuantity>>, name: &str) -> Option<Quantity> {
    Quantity::parse(&requests?.get(name)?.0).ok()
}

fn push(message: &mut String, text: std::fmt::Arguments<'_>) {
    // Writing to a string does not fail.
    let _ = message.write_fmt(text);
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use hostlet_base::node::{Signal, Threshold};
    use hostlet_base::testing::at;
    use hostlet_observe::stats::Observation;
    use serde_json::json;

    use super::super::testing::pod;
    use super::super::usage::DiskSpace;
    use super::*;

    const MIB: u64 = 1 << 20;

    fn consumption() -> PodConsumption {
        let space = |mib: u64| Some(DiskSpace { bytes: mib * MIB, inodes: 7 });
        let container = |memory: u64, layer: u64, logs: u64| ContainerConsumption {
            memory: Some(memory * MIB),
            layer: space(layer),
            logs: space(logs),
            ..ContainerConsumption::default()
        };
        PodConsumption {
            memory: Some(300 * MIB),
            // One is not in the spec, such as an ephemeral container.
            containers: [("c", 200, 3, 1), ("side", 50, 0, 0), ("debug", 900, 900, 900)]
                .map(|(name, memory, layer, logs)| (name.into(), container(memory, layer, logs)))
                .into(),
            ..PodConsumption::default()
        }
    }

    #[test]
    fn the_message_names_the_containers_beyond_their_requests() {
        let pod = pod("web").edited(|pod| {
            let spec = pod.spec.get_or_insert_default();
            let requests = json!({"requests": {"memory": "100Mi", "ephemeral-storage": "4Mi"}});
            spec.containers[0].resources = serde_json::from_value(requests).unwrap();
            let sidecar = json!([{"name": "side", "restartPolicy": "Always"}]);
            spec.init_containers = serde_json::from_value(sidecar).unwrap();
        });
        let explained = |starved: &str| explain(starved, "Why. ", &pod, &consumption());
        let memory = explained("memory");
        let message = "The node was low on resource: memory. Why. Container side was using 50Mi, request is 0, has larger \
                       consumption of memory. Container c was using 200Mi, request is 100Mi, has larger consumption of \
                       memory. ";
        assert_eq!(memory.message, message);
        assert_eq!(memory.annotations["offending_containers"], "side,c");
        assert_eq!(memory.annotations["offending_containers_usage"], "50Mi,200Mi");
        assert_eq!(memory.annotations["starved_resource"], "memory");
        // What is used equals what is requested.
        assert_eq!(
            explained("ephemeral-storage").message,
            "The node was low on resource: ephemeral-storage. Why. "
        );
        let inodes = explained("inodes");
        assert_eq!(inodes.message, "The node was low on resource: inodes. Why. ");
        assert_eq!(inodes.annotations["offending_containers"], "");
    }

    #[test]
    fn a_pod_with_resources_as_a_whole_is_named_with_them() {
        let pod = pod("web").edited(|pod| {
            let own = json!({"requests": {"memory": "64Mi"}});
            pod.spec.get_or_insert_default().resources = serde_json::from_value(own).unwrap();
        });
        let explained = explain("memory", "", &pod, &consumption());
        let expected = "The node was low on resource: memory. Pod web was using 300Mi, request is 64Mi, has larger \
                        consumption of memory. ";
        assert!(explained.message.starts_with(expected), "{}", explained.message);
        assert_eq!(explained.annotations["offending_pod"], "web");
        assert_eq!(explained.annotations["offending_pod_usage"], "300Mi");
    }

    #[test]
    fn the_cause_is_the_first_threshold_of_the_resource_that_was_seen() {
        let threshold = |signal: Signal, value: Threshold| EvictionThreshold {
            signal,
            value,
            grace: Duration::ZERO,
            min_reclaim: None,
        };
        let due = [
            threshold(Signal::PidAvailable, Threshold::Amount(Quantity::count(9))),
            threshold(Signal::NodefsAvailable, Threshold::Part(0.1)),
            threshold(Signal::ImagefsAvailable, Threshold::Part(0.5)),
        ];
        let (available, capacity) = (Quantity::bytes(55 * MIB), Quantity::bytes(1000 * MIB));
        let seen = [(Signal::NodefsAvailable, Observation { at: at(0), available, capacity })].into();
        let of_disk = cause_of("ephemeral-storage", &due, &seen);
        assert_eq!(
            of_disk, "Threshold quantity: 104857601, available: 55Mi. ",
            "single precision, as upstream"
        );
        assert_eq!(cause_of("pids", &due, &seen), "");
        assert_eq!(cause_of("memory", &due, &seen), "");
    }
}
