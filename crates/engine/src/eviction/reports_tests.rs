//! What users of other kubelets report of evictions. Each test names the issues that it is about.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use hostlet_base::node::{Pressure, PressureState, Signal, Threshold};
use hostlet_base::settings::EvictionThreshold;
use hostlet_base::{PodUid, Quantity};
use hostlet_observe::stats::DiskLayout;
use hostlet_observe::status::LifecycleSummary;
use tokio::time::{sleep, timeout};

use super::bench::{Bench, Frees, PATIENCE, entry, hard, memory};
use super::reclaim::{Reclaimer, Reclaims};
use super::testing::{FakeNode, pod};
use super::usage::{ContainerConsumption, DiskSpace, PodConsumption};

const TEN_YEARS: i64 = 10 * 365 * 24 * 3600;

fn disk(amount: u64) -> PodConsumption {
    let space = DiskSpace { bytes: amount, inodes: amount };
    let container = ContainerConsumption {
        layer: Some(space),
        logs: Some(space),
        image: "img".to_owned(),
        ..ContainerConsumption::default()
    };
    PodConsumption {
        volumes: space,
        containers: [("c".into(), container)].into(),
        ..PodConsumption::default()
    }
}

/// kubernetes/kubernetes#129616 (with images on a disk of their own, pods were evicted without a look at unused images), #44208, #45558 (dead
/// containers filled the disk), #41032 (pods were evicted although enough had been freed).
#[tokio::test(start_paused = true)]
async fn unused_images_and_dead_containers_go_before_any_pod_whatever_is_on_which_disk() {
    use DiskLayout::{ImagesApart, One, Split};
    use Reclaims::{Containers, Images};
    for (layout, space, inodes, kinds) in [
        (One, Signal::NodefsAvailable, Signal::NodefsInodesFree, &[Containers, Images][..]),
        (One, Signal::ImagefsAvailable, Signal::ImagefsInodesFree, &[Containers, Images]),
        (ImagesApart, Signal::ImagefsAvailable, Signal::ImagefsInodesFree, &[Containers, Images]),
        (ImagesApart, Signal::ContainerfsAvailable, Signal::ContainerfsInodesFree, &[Containers, Images]),
        (Split, Signal::ImagefsAvailable, Signal::ImagefsInodesFree, &[Images]),
        (Split, Signal::ContainerfsAvailable, Signal::ContainerfsInodesFree, &[Containers]),
        (Split, Signal::NodefsAvailable, Signal::NodefsInodesFree, &[Containers]),
    ] {
        for (signal, kind) in
            [space, inodes].into_iter().flat_map(|signal| kinds.iter().map(move |kind| (signal, *kind)))
        {
            let (node, calls) = (FakeNode::default(), Arc::new(AtomicUsize::new(0)));
            node.lay_out(layout);
            let frees = Frees {
                kind,
                node: node.clone(),
                left_after: Some((signal, 1000)),
                fails: false,
                calls: calls.clone(),
            };
            let thresholds = [
                Signal::NodefsAvailable,
                Signal::NodefsInodesFree,
                Signal::ImagefsAvailable,
                Signal::ImagefsInodesFree,
            ];
            let reclaimers: Vec<Box<dyn Reclaimer>> = vec![Box::new(frees)];
            let mut bench = Bench::with(node, &thresholds.map(hard), &[pod("a")], reclaimers);
            bench.node.set_consumption("a", disk(500));
            bench.node.leave(signal, 50);
            bench.nobody_else(0).await;
            assert_eq!(calls.load(Ordering::Relaxed), 1, "{layout:?} {signal:?} {kind:?}");
        }
    }
}

/// k3s-io/k3s#6290, k3s-io/k3s#796, kubernetes/kubernetes#71869, rancher/k3os#765, k3d-io/k3d#130 ("wanted to free …, but freed 0 bytes" for
/// ever), kubernetes/kubernetes#35017 (a pod that fills the disk through a hostPath is evicted, and its files stay).
#[tokio::test(start_paused = true)]
async fn a_disk_that_others_fill_evicts_nobody_and_is_explained_once() {
    let (node, calls) = (FakeNode::default(), Arc::new(AtomicUsize::new(0)));
    let frees = Frees {
        kind: Reclaims::Images,
        node: node.clone(),
        left_after: None,
        fails: false,
        calls: calls.clone(),
    };
    let thresholds = [hard(Signal::NodefsAvailable), hard(Signal::ImagefsAvailable)];
    let mut bench = Bench::with(node, &thresholds, &[pod("a"), pod("b")], vec![Box::new(frees)]);
    // What they write to the host is not counted, and their image is used by both.
    bench.node.set_consumption("a", disk(0));
    bench.node.set_consumption("b", disk(0));
    bench.node.leave(Signal::NodefsAvailable, 20);
    bench.node.leave(Signal::ImagefsAvailable, 20);
    bench.pressed(Pressure::Disk, PressureState::Present).await;
    bench.nobody_else(0).await;
    sleep(Duration::from_secs(3600)).await;
    assert!(bench.kills.borrow().is_empty());
    let expected = [
        "EvictionThresholdMet: Attempting to reclaim ephemeral-storage",
        "NoPodToEvict: No pod is evicted: the end of none would free enough ephemeral-storage. Of 980B in use for nodefs.available, pods \
         use 0B (0B in volumes, 0B in logs, 0B in writable layers); 980B are images and files of others. 3 images (6.7GB) are in use, \
         by pod ns/db",
    ];
    assert_eq!(*bench.events.lock(), expected);
    assert!(calls.load(Ordering::Relaxed) > 100, "what others stop using is freed at once");
}

/// kubernetes/kubernetes#83612, #45558, #43166 (after a change of thresholds, or when the kubelet starts on a full node, everything is
/// evicted).
#[tokio::test(start_paused = true)]
async fn a_daemon_that_starts_beyond_a_threshold_evicts_no_more_than_needed() {
    let node = FakeNode::default();
    let pods = ["a", "b", "c", "d", "e", "f", "g"].map(pod);
    pods.iter().for_each(|pod| node.set_consumption(&pod.reference.name, memory(60)));
    let mut left = 0;
    node.leave(Signal::MemoryAvailable, left);
    let amount = |amount: u64| Threshold::Amount(Quantity::count(amount));
    let mut alive = pods.to_vec();
    // The second daemon has a higher threshold.
    for (least, reclaim, evicted) in [(100, 50, 3), (200, 30, 1)] {
        let threshold = EvictionThreshold {
            value: amount(least),
            min_reclaim: Some(amount(reclaim)),
            ..hard(Signal::MemoryAvailable)
        };
        let mut bench = Bench::with(node.clone(), &[threshold], &alive, Vec::new());
        for pod in alive.drain(..evicted) {
            let name = pod.reference.name.to_string();
            bench.killed(&name).await;
            // Its memory is not free before it has ended.
            bench.status_cache.report(entry(&pod, LifecycleSummary::Terminating));
            sleep(Duration::from_secs(20)).await;
            left += 60;
            node.leave(Signal::MemoryAvailable, left);
            node.forget(&name);
            bench.ended(&pod, true);
        }
        bench.nobody_else(evicted).await;
    }
}

/// kubernetes/kubernetes#124081 (a soft eviction took seven hours, and the node ran out of its resource meanwhile).
#[tokio::test(start_paused = true)]
async fn a_hard_threshold_does_not_wait_for_a_slow_soft_eviction() {
    let soft = EvictionThreshold {
        value: Threshold::Amount(Quantity::count(200)),
        grace: Duration::from_secs(60),
        ..hard(Signal::MemoryAvailable)
    };
    let pods = ["hog", "modest"].map(pod);
    let mut bench = Bench::new(&[hard(Signal::MemoryAvailable), soft], &pods);
    bench.node.set_consumption("hog", memory(500));
    bench.node.set_consumption("modest", memory(0));
    bench.node.leave(Signal::MemoryAvailable, 150);
    assert_eq!(bench.killed("hog").await.grace_seconds, Some(20));
    bench.status_cache.report(entry(&pods[0], LifecycleSummary::Terminating));
    sleep(Duration::from_secs(120)).await;
    assert_eq!(bench.kills.borrow()[&PodUid::from("hog")].grace_seconds, Some(20), "it is not in need yet");
    bench.node.leave(Signal::MemoryAvailable, 50);
    let hastened = bench.kills.wait_for(|kills| kills[&PodUid::from("hog")].grace_seconds == Some(1));
    timeout(PATIENCE, hastened).await.expect("it takes its time").unwrap();
    bench.nobody_else(1).await;
}

/// kubernetes/kubernetes#134153, #5819, rancher/k3os#554 (clocks that are set; hosts without one of their own).
#[tokio::test(start_paused = true)]
async fn a_clock_that_is_set_hides_no_shortage_and_ends_no_pressure() {
    for step in [-TEN_YEARS, TEN_YEARS] {
        let mut bench = Bench::new(&[hard(Signal::MemoryAvailable)], &["a", "b"].map(pod));
        bench.node.set_consumption("a", memory(500));
        bench.node.set_consumption("b", memory(400));
        bench.pressed(Pressure::Memory, PressureState::Absent).await;
        bench.node.set_clock(step);
        bench.node.leave(Signal::MemoryAvailable, 50);
        bench.killed("a").await;
        bench.node.forget("a");
        bench.ended(&pod("a"), true);
        bench.node.set_clock(step);
        bench.killed("b").await;
        bench.node.forget("b");
        bench.ended(&pod("b"), true);
        bench.node.leave(Signal::MemoryAvailable, 500);
        let under = bench.pressure.borrow().active();
        assert_eq!(under, [Pressure::Memory].into());
        sleep(Duration::from_secs(290)).await;
        assert_eq!(bench.pressure.borrow().active(), under, "for as long as configured");
        bench.pressed(Pressure::Memory, PressureState::Absent).await;
    }
}
