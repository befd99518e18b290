//! Orders after upstream's `TestOrderedBy…` and `TestSortByEvictionPriority`, and what is not worth an eviction.

use std::sync::Arc;

use hostlet_base::node::Signal;
use hostlet_observe::stats::DiskLayout;
use hostlet_pod::AdmittedPod;
use proptest::prelude::*;
use serde_json::json;

use super::rank::{Candidate, Starved, frees, rank};
use super::testing::pod;
use super::usage::{ContainerConsumption, DiskSpace, PodConsumption, PodsConsumption};

fn requesting(name: &str, priority: i32, requests: serde_json::Value) -> Arc<AdmittedPod> {
    pod(name).edited(|pod| {
        let spec = pod.spec.get_or_insert_default();
        spec.priority = Some(priority);
        spec.containers[0].resources = serde_json::from_value(json!({"requests": requests})).unwrap();
    })
}

fn memory(bytes: u64) -> PodConsumption {
    PodConsumption { memory: Some(bytes), ..PodConsumption::default() }
}

fn disk(layer: u64, logs: u64, volumes: u64) -> PodConsumption {
    let space = |amount: u64| DiskSpace { bytes: amount, inodes: amount / 10 };
    let container = ContainerConsumption {
        layer: Some(space(layer)),
        logs: Some(space(logs)),
        image: "img".to_owned(),
        ..ContainerConsumption::default()
    };
    PodConsumption {
        volumes: space(volumes),
        containers: [("c".into(), container)].into(),
        ..PodConsumption::default()
    }
}

/// The names in the order of eviction.
fn ranked(pods: &[(Arc<AdmittedPod>, PodConsumption)], signal: Signal, layout: DiskLayout) -> Vec<String> {
    let candidates =
        pods.iter().map(|(pod, consumption)| Candidate { pod: pod.clone(), consumption }).collect();
    let ranked = rank(candidates, Starved::new(signal, layout, 0, false));
    ranked.iter().map(|candidate| candidate.pod.reference.name.to_string()).collect()
}

#[test]
fn memory_ranks_by_excess_over_the_request_then_priority_then_amount() {
    let request = |memory: &str| json!({"memory": memory});
    let pods = [
        (requesting("below-big", 0, request("1Gi")), memory(1 << 30)),
        (requesting("above-important", 10, request("100Mi")), memory(900 << 20)),
        (requesting("above-little", 0, request("100Mi")), memory(110 << 20)),
        (requesting("above-much", 0, request("100Mi")), memory(300 << 20)),
        (requesting("none-requested", 0, json!({})), memory(250 << 20)),
        (requesting("below-unimportant", -5, request("1Gi")), memory(1 << 20)),
    ];
    let expected =
        ["none-requested", "above-much", "above-little", "above-important", "below-unimportant", "below-big"];
    for signal in [Signal::MemoryAvailable, Signal::AllocatableMemoryAvailable] {
        assert_eq!(ranked(&pods, signal, DiskLayout::One), expected);
    }
}

#[test]
fn processes_rank_by_priority_then_number() {
    let with = |processes: u64| PodConsumption { processes, ..PodConsumption::default() };
    let pods = [
        (requesting("important", 10, json!({})), with(900)),
        (requesting("few", 0, json!({})), with(5)),
        (requesting("many", 0, json!({})), with(50)),
    ];
    assert_eq!(ranked(&pods, Signal::PidAvailable, DiskLayout::One), ["many", "few", "important"]);
}

#[test]
fn disks_rank_by_what_is_on_the_filesystem_of_the_signal() {
    use DiskLayout::{ImagesApart, One, Split};
    let request = |storage: &str| json!({"ephemeral-storage": storage});
    let pods = [
        (requesting("layers", 0, json!({})), disk(900, 10, 10)),
        (requesting("logs", 0, json!({})), disk(10, 800, 10)),
        (requesting("volumes", 0, json!({})), disk(10, 10, 700)),
        (requesting("modest", 0, request("1Gi")), disk(2000, 2000, 2000)),
        (requesting("important", 1, json!({})), disk(5000, 5000, 5000)),
    ];
    let names = |of: [&str; 5]| of.map(str::to_owned).to_vec();
    let all = names(["layers", "logs", "volumes", "important", "modest"]);
    let without_layers = names(["logs", "volumes", "layers", "important", "modest"]);
    let alone = names(["layers", "logs", "volumes", "important", "modest"]);
    for (signal, layout, expected) in [
        (Signal::NodefsAvailable, One, &all),
        (Signal::ImagefsAvailable, One, &all),
        (Signal::ContainerfsAvailable, One, &all),
        (Signal::NodefsAvailable, ImagesApart, &without_layers),
        (Signal::ImagefsAvailable, ImagesApart, &alone),
        (Signal::ContainerfsAvailable, ImagesApart, &alone),
        (Signal::NodefsAvailable, Split, &all),
        (Signal::ContainerfsAvailable, Split, &all),
    ] {
        assert_eq!(&ranked(&pods, signal, layout), expected, "{signal:?} {layout:?}");
    }
    // No pod requests inodes, so each uses too many; upstream subtracts the requested bytes, too.
    let of_inodes = names(["layers", "logs", "volumes", "modest", "important"]);
    assert_eq!(ranked(&pods, Signal::NodefsInodesFree, One), of_inodes);
}

#[test]
fn a_pod_whose_end_frees_next_to_nothing_is_left_alone() {
    let (big, small) = (pod("big"), pod("small"));
    let consumption: PodsConsumption =
        [(big.reference.uid.clone(), disk(10 << 20, 0, 0)), (small.reference.uid.clone(), disk(4096, 0, 0))]
            .into();
    let is_worth =
        |pod: &Arc<AdmittedPod>, signal: Signal, layout: DiskLayout, shortage: u64, images: bool| {
            let candidate = Candidate { pod: pod.clone(), consumption: &consumption[&pod.reference.uid] };
            frees(&candidate, &consumption, Starved::new(signal, layout, shortage, images))
        };
    use DiskLayout::{ImagesApart, One, Split};
    use Signal::{ImagefsAvailable, NodefsAvailable};
    assert!(is_worth(&big, NodefsAvailable, One, 1 << 30, false));
    assert!(!is_worth(&small, NodefsAvailable, One, 1 << 30, false));
    assert!(is_worth(&small, NodefsAvailable, One, 1 << 20, false), "a thousand like it would do");
    // What it has is elsewhere.
    assert!(!is_worth(&big, NodefsAvailable, ImagesApart, 1 << 20, false));
    assert!(!is_worth(&big, ImagefsAvailable, Split, 1 << 20, false));
    // Both use the same image, so the end of one of them frees none.
    assert!(!is_worth(&big, ImagefsAvailable, Split, 1 << 20, true));
    let alone: PodsConsumption = [(big.reference.uid.clone(), disk(0, 0, 0))].into();
    let candidate = Candidate { pod: big.clone(), consumption: &alone[&big.reference.uid] };
    let starved = |images: bool| Starved::new(ImagefsAvailable, Split, 1 << 20, images);
    assert!(frees(&candidate, &alone, starved(true)) && !frees(&candidate, &alone, starved(false)));
    assert!(!frees(&candidate, &alone, Starved::new(Signal::MemoryAvailable, One, 0, true)));
}

proptest! {
    /// The order does not depend on the order of the list, and whoever uses more of the same goes first.
    #[test]
    fn the_order_is_total(usage in prop::collection::btree_set(1_u64..1000, 1..12), seed in any::<u64>()) {
        let mut pods: Vec<_> = usage.iter().map(|bytes| (pod(&bytes.to_string()), memory(*bytes))).collect();
        let expected: Vec<String> = usage.iter().rev().map(ToString::to_string).collect();
        let by = usize::try_from(seed % 12).unwrap() % pods.len();
        pods.rotate_left(by);
        prop_assert_eq!(ranked(&pods, Signal::MemoryAvailable, DiskLayout::One), expected);
    }
}
