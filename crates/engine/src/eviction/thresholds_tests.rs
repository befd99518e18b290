//! Tables after upstream's `TestThresholdsMet`, `TestUpdateContainerFsThresholds` and `TestGetThresholdQuantity`.

use std::time::Duration;

use hostlet_base::Quantity;
use hostlet_base::node::{Signal, Threshold};
use hostlet_base::settings::EvictionThreshold;
use hostlet_base::testing::at;
use hostlet_observe::stats::{DiskLayout, Observation};

use super::thresholds::{Observations, Reclaim, applicable, by_priority, is_crossed, limit, shortage};

fn amount(text: &str) -> Threshold {
    Threshold::Amount(Quantity::parse(text).unwrap())
}

fn threshold(signal: Signal, value: Threshold, min_reclaim: Option<Threshold>) -> EvictionThreshold {
    EvictionThreshold { signal, value, grace: Duration::ZERO, min_reclaim }
}

fn seen(signal: Signal, available: &str, capacity: &str) -> Observations {
    let quantity = |text: &str| Quantity::parse(text).unwrap();
    let observed = Observation { at: at(0), available: quantity(available), capacity: quantity(capacity) };
    [(signal, observed)].into()
}

#[test]
fn a_threshold_is_crossed_below_it_and_stays_so_until_its_minimum_is_reclaimed() {
    use Reclaim::{Ignored, Required};
    use Signal::MemoryAvailable;
    let plain = threshold(MemoryAvailable, amount("1Gi"), None);
    let reclaiming = threshold(MemoryAvailable, amount("1Gi"), Some(amount("500Mi")));
    let part = threshold(MemoryAvailable, Threshold::Part(0.25), None);
    let both_parts = threshold(MemoryAvailable, Threshold::Part(0.125), Some(Threshold::Part(0.0625)));
    for (threshold, reclaim, available, crossed) in [
        (plain, Ignored, "2Gi", false),
        (plain, Ignored, "1Gi", false),
        (plain, Ignored, "1023Mi", true),
        (plain, Required, "1Gi", false),
        (reclaiming, Ignored, "1Gi", false),
        (reclaiming, Required, "1Gi", true),
        (reclaiming, Required, "1523Mi", true),
        (reclaiming, Required, "1524Mi", false),
        (part, Ignored, "2Gi", false),
        (part, Ignored, "2047Mi", true),
        (both_parts, Ignored, "1Gi", false),
        (both_parts, Required, "1535Mi", true),
        (both_parts, Required, "1536Mi", false),
    ] {
        let observed = seen(MemoryAvailable, available, "8Gi");
        assert_eq!(is_crossed(&threshold, &observed, reclaim), crossed, "{threshold:?} {available}");
    }
    // What nobody has seen is not crossed.
    assert!(!is_crossed(&plain, &seen(Signal::PidAvailable, "0", "1"), Ignored));
    let missing = |available: &str| shortage(&reclaiming, &seen(MemoryAvailable, available, "8Gi"), Required);
    assert_eq!(missing("1Gi"), Some(500 << 20));
    assert_eq!(missing("0"), Some(1524 << 20));
    assert_eq!(missing("2Gi"), None);
    // A filesystem without a fixed number of inodes has none, and lacks none of them.
    let inodes = threshold(Signal::NodefsInodesFree, Threshold::Part(0.05), None);
    assert!(!is_crossed(&inodes, &seen(Signal::NodefsInodesFree, "0", "0"), Ignored));
}

#[test]
fn writable_layers_have_the_thresholds_of_their_filesystem() {
    use Signal::{
        ContainerfsAvailable, ContainerfsInodesFree, ImagefsAvailable, NodefsAvailable, NodefsInodesFree,
    };
    let soft = EvictionThreshold {
        grace: Duration::from_secs(30),
        ..threshold(NodefsAvailable, amount("2Gi"), Some(amount("1Gi")))
    };
    let configured = [
        threshold(NodefsAvailable, amount("1Gi"), None),
        soft,
        threshold(NodefsInodesFree, Threshold::Part(0.05), None),
        threshold(ImagefsAvailable, amount("3Gi"), None),
        // As upstream, these are not heeded.
        threshold(ContainerfsAvailable, amount("9Gi"), None),
    ];
    let of_layers = |layout: Option<DiskLayout>| -> Vec<EvictionThreshold> {
        let all = applicable(&configured, layout);
        assert_eq!(all[..4], configured[..4], "{layout:?}");
        all[4..].to_vec()
    };
    let of_node = [
        EvictionThreshold { signal: ContainerfsAvailable, ..configured[0] },
        EvictionThreshold { signal: ContainerfsAvailable, ..soft },
        EvictionThreshold { signal: ContainerfsInodesFree, ..configured[2] },
    ];
    assert_eq!(of_layers(Some(DiskLayout::One)), of_node);
    assert_eq!(of_layers(Some(DiskLayout::Split)), of_node);
    let of_images = [EvictionThreshold { signal: ContainerfsAvailable, ..configured[3] }];
    assert_eq!(of_layers(Some(DiskLayout::ImagesApart)), of_images);
    assert_eq!(of_layers(None), []);
}

#[test]
fn memory_is_relieved_first() {
    let of = |signal: Signal| threshold(signal, amount("1"), None);
    let mut all = [Signal::PidAvailable, Signal::NodefsAvailable, Signal::AllocatableMemoryAvailable].map(of);
    by_priority(&mut all);
    let expected = [Signal::AllocatableMemoryAvailable, Signal::PidAvailable, Signal::NodefsAvailable];
    assert_eq!(all.map(|threshold| threshold.signal), expected);
}

#[test]
fn a_look_shows_the_threshold_that_is_crossed_first() {
    let soft = EvictionThreshold {
        grace: Duration::from_secs(1),
        ..threshold(Signal::MemoryAvailable, Threshold::Part(0.125), None)
    };
    let all = [threshold(Signal::MemoryAvailable, amount("1Gi"), None), soft];
    let of = |signal: Signal, is_hard: bool| {
        limit(&all, signal, is_hard, Quantity::bytes(16 << 30)).map(|limit| limit.to_string())
    };
    assert_eq!(of(Signal::MemoryAvailable, true).as_deref(), Some("1Gi"));
    assert_eq!(of(Signal::MemoryAvailable, false).as_deref(), Some("2Gi"));
    assert_eq!(of(Signal::PidAvailable, true), None);
}
