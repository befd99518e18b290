//! The task in paused time, on a node whose resources a test sets.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use hostlet_base::node::{Pressure, PressureState, Signal, Threshold};
use hostlet_base::settings::EvictionThreshold;
use hostlet_base::testing::at;
use hostlet_host::StallKind;
use hostlet_observe::status::LifecycleSummary;
use hostlet_pod::AdmittedPod;
use serde_json::json;
use tokio::time::{advance, sleep, timeout};

use super::alarms::MemoryNotice;
use super::bench::{Bench, Frees, PATIENCE, entry, hard, memory};
use super::reclaim::{Reclaimer, Reclaims};
use super::testing::{FakeNode, pod};
use super::usage::PodConsumption;

/// kubernetes/kubernetes#43166, #35406 (the next pod was evicted before the first had released what it used).
#[tokio::test(start_paused = true)]
async fn one_pod_at_a_time_is_evicted_until_the_node_is_relieved() {
    let pods = ["small", "big", "bigger"].map(pod);
    let mut bench = Bench::new(&[hard(Signal::MemoryAvailable)], &pods);
    for (name, bytes) in [("small", 10), ("big", 200), ("bigger", 300)] {
        bench.node.set_consumption(name, memory(bytes));
    }
    bench.pressed(Pressure::Memory, PressureState::Absent).await;
    bench.nobody_else(0).await;

    bench.node.leave(Signal::MemoryAvailable, 50);
    let kill = bench.killed("bigger").await;
    let message = "The node was low on resource: memory. Threshold quantity: 100, available: 50. Container c was using \
                   300, request is 0, has larger consumption of memory. ";
    assert_eq!((&*kill.status.reason, &*kill.status.message), ("Evicted", message));
    assert_eq!(kill.status.disruption.as_deref(), Some(message));
    assert_eq!((kill.grace_seconds, kill.evict), (Some(1), true));
    assert_eq!(bench.pressure.borrow().active(), [Pressure::Memory].into());
    let expected = ["EvictionThresholdMet: Attempting to reclaim memory", "bigger: Evicted"];
    assert_eq!(*bench.events.lock(), expected);
    let annotations = bench.annotations.lock()[0].clone();
    let expected = [
        ("offending_containers", "c"),
        ("offending_containers_usage", "300"),
        ("starved_resource", "memory"),
    ];
    assert_eq!(annotations, expected.map(|(key, value)| (key.to_owned(), value.to_owned())).into());

    // It still uses its memory: nobody else goes before it is cleaned up.
    bench.ended(&pods[2], false);
    let looks = bench.node.looks();
    sleep(Duration::from_secs(20)).await;
    assert_eq!((bench.kills.borrow().len(), bench.node.looks()), (1, looks));
    bench.node.forget("bigger");
    bench.ended(&pods[2], true);
    bench.killed("big").await;
    bench.node.leave(Signal::MemoryAvailable, 100);
    bench.node.forget("big");
    bench.ended(&pods[1], true);
    bench.nobody_else(2).await;
    bench.pressed(Pressure::Memory, PressureState::Absent).await;
    let text = bench.metrics.encode();
    for line in [
        "kubelet_evictions{eviction_signal=\"memory.available\"} 2",
        "kubelet_eviction_stats_age_seconds_count{eviction_signal=\"memory.available\"} 2",
        "hostlet_eviction_signal_unreadable{eviction_signal=\"memory.available\"} 0",
    ] {
        assert!(text.contains(line), "{line}: {text}");
    }
}

/// A node without memory on which the first of two pods is evicted and terminates.
async fn first_of_two_ends() -> (Bench, [Arc<AdmittedPod>; 2]) {
    let pods = ["one", "two"].map(pod);
    let mut bench = Bench::new(&[hard(Signal::MemoryAvailable)], &pods);
    bench.node.set_consumption("one", memory(200));
    bench.node.set_consumption("two", memory(100));
    bench.node.leave(Signal::MemoryAvailable, 0);
    bench.killed("one").await;
    bench.status_cache.report(entry(&pods[0], LifecycleSummary::Terminating));
    (bench, pods)
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_does_not_end_is_waited_for_only_half_a_minute() {
    let (mut bench, _pods) = first_of_two_ends().await;
    sleep(Duration::from_secs(29)).await;
    assert_eq!(bench.kills.borrow().len(), 1);
    bench.killed("two").await;
}

/// As of a virtual machine that is paused or migrated.
#[tokio::test(start_paused = true)]
async fn minutes_in_which_the_host_was_frozen_do_not_count_as_waiting() {
    let (mut bench, pods) = first_of_two_ends().await;
    advance(Duration::from_secs(150)).await;
    sleep(Duration::from_secs(20)).await;
    assert_eq!(bench.kills.borrow().len(), 1);
    bench.node.leave(Signal::MemoryAvailable, 200);
    bench.node.forget("one");
    bench.ended(&pods[0], true);
    bench.nobody_else(1).await;
}

/// As who deletes evicted pods at once, or by force.
#[tokio::test(start_paused = true)]
async fn an_evicted_pod_that_is_removed_while_it_ends_is_still_waited_for() {
    let (mut bench, pods) = first_of_two_ends().await;
    bench.removed(&pods[0]);
    let is_forgotten = bench.kills.wait_for(|kills| kills.is_empty());
    drop(timeout(PATIENCE, is_forgotten).await.unwrap().unwrap());
    sleep(Duration::from_secs(20)).await;
    assert!(
        bench.kills.borrow().is_empty(),
        "the other is evicted for what the removed one is about to release"
    );
    bench.node.leave(Signal::MemoryAvailable, 200);
    bench.node.forget("one");
    bench.ended(&pods[0], true);
    bench.nobody_else(0).await;
}

#[tokio::test(start_paused = true)]
async fn a_soft_threshold_grants_the_shorter_grace_period() {
    let soft = EvictionThreshold { grace: Duration::from_secs(60), ..hard(Signal::PidAvailable) };
    let quick = pod("quick").edited(|pod| {
        pod.spec.get_or_insert_default().termination_grace_period_seconds = Some(5);
    });
    let slow = pod("slow");
    let mut bench = Bench::new(&[soft], &[quick.clone(), slow]);
    bench.node.set_consumption("quick", PodConsumption { processes: 50, ..PodConsumption::default() });
    bench.node.set_consumption("slow", PodConsumption { processes: 40, ..PodConsumption::default() });
    bench.node.leave(Signal::PidAvailable, 10);
    bench.pressed(Pressure::Pid, PressureState::Present).await;
    sleep(Duration::from_secs(55)).await;
    assert!(bench.kills.borrow().is_empty());
    assert_eq!(bench.killed("quick").await.grace_seconds, Some(5));
    bench.ended(&quick, true);
    assert_eq!(bench.killed("slow").await.grace_seconds, Some(20));
}

/// kubernetes/kubernetes#73572, #76598, #83317, #101167 (static and critical pods were evicted, and stayed away).
#[tokio::test(start_paused = true)]
async fn static_and_critical_pods_are_spared_and_so_are_those_whose_end_frees_nothing() {
    let critical = pod("critical").edited(|pod| {
        pod.spec.get_or_insert_default().priority = Some(2_000_000_000);
    });
    let of_manifest = AdmittedPod::new(hostlet_pod::testing::pod("static", "static", "Always", &["c"]));
    let ended = pod("ended").edited(|pod| {
        pod.status = serde_json::from_value(json!({"phase": "Succeeded"})).unwrap();
    });
    let pods = [critical, of_manifest, ended, pod("idle"), pod("unknown")];
    let mut bench = Bench::new(&[hard(Signal::MemoryAvailable)], &pods);
    for name in ["critical", "static", "ended"] {
        bench.node.set_consumption(name, memory(500));
    }
    bench.node.set_consumption("idle", memory(0));
    bench.node.leave(Signal::MemoryAvailable, 1);
    bench.nobody_else(0).await;
    let events = bench.events.lock().clone();
    let stuck: Vec<&String> = events.iter().filter(|event| event.starts_with("NoPodToEvict")).collect();
    let message = "NoPodToEvict: No pod is evicted: the end of none would free enough memory. Of 999B in use for \
                   memory.available, pods use 1.5kB, most by default/critical (500B), default/ended (500B), default/static (500B); \
                   0B are not of pods";
    assert_eq!(stuck, [message], "once, though the node is short of memory for long");
}

#[tokio::test(start_paused = true)]
async fn a_signal_that_no_pod_can_relieve_does_not_keep_others_from_it() {
    let mut bench = Bench::new(&[hard(Signal::MemoryAvailable), hard(Signal::PidAvailable)], &[pod("forks")]);
    bench.node.set_consumption("forks", PodConsumption { processes: 500, ..memory(0) });
    bench.node.leave(Signal::MemoryAvailable, 0);
    bench.node.leave(Signal::PidAvailable, 0);
    assert!(bench.killed("forks").await.status.message.starts_with("The node was low on resource: pids. "));
}

#[tokio::test(start_paused = true)]
async fn what_nobody_uses_is_freed_first_and_that_may_be_enough() {
    let thresholds =
        [EvictionThreshold { min_reclaim: Some(Threshold::Part(0.1)), ..hard(Signal::NodefsAvailable) }];
    let disk = || {
        let space = super::usage::DiskSpace { bytes: 500, inodes: 1 };
        PodConsumption { volumes: space, ..PodConsumption::default() }
    };
    // Whether it failed for some images does not matter (kubernetes/kubernetes#44951).
    for (left_after, fails, is_enough) in
        [(Some(200), false, true), (Some(200), true, true), (Some(199), false, false), (None, true, false)]
    {
        let (node, calls) = (FakeNode::default(), Arc::new(AtomicUsize::new(0)));
        let reclaimers: Vec<Box<dyn Reclaimer>> = vec![Box::new(Frees {
            kind: Reclaims::Images,
            node: node.clone(),
            left_after: left_after.map(|left| (Signal::NodefsAvailable, left)),
            fails,
            calls: calls.clone(),
        })];
        let mut bench = Bench::with(node, &thresholds, &[pod("a")], reclaimers);
        bench.node.set_consumption("a", disk());
        bench.node.leave(Signal::NodefsAvailable, 50);
        match is_enough {
            true => bench.nobody_else(0).await,
            false => drop(bench.killed("a").await),
        }
        assert!(calls.load(Ordering::Relaxed) > 0);
    }
}

#[tokio::test(start_paused = true)]
async fn a_signal_that_cannot_be_read_is_an_event_a_metric_and_an_unknown_condition() {
    let mut bench = Bench::new(&[hard(Signal::NodefsAvailable)], &[]);
    bench.pressed(Pressure::Disk, PressureState::Absent).await;
    bench.node.conceal(Signal::NodefsAvailable, "broken");
    let why = "kubelet cannot read nodefs.available: broken";
    bench.pressed(Pressure::Disk, PressureState::Unknown(why.to_owned())).await;
    sleep(Duration::from_secs(60)).await;
    assert_eq!(*bench.events.lock(), [format!("EvictionSignalUnreadable: {why}")]);
    let line = "hostlet_eviction_signal_unreadable{eviction_signal=\"nodefs.available\"} 1";
    assert!(bench.metrics.encode().contains(line));
    bench.node.leave(Signal::NodefsAvailable, 1000);
    bench.pressed(Pressure::Disk, PressureState::Absent).await;
}

#[tokio::test(start_paused = true)]
async fn a_node_that_is_fine_is_looked_at_each_ten_seconds_and_tells_nobody() {
    let mut bench = Bench::new(&[hard(Signal::MemoryAvailable)], &[]);
    bench.pressed(Pressure::Memory, PressureState::Absent).await;
    bench.pressure.mark_unchanged();
    let before = bench.node.looks();
    sleep(Duration::from_secs(105)).await;
    assert_eq!(bench.node.looks() - before, 10);
    assert!(!bench.pressure.has_changed().unwrap());
    assert!(
        bench.pressure.borrow().looks[&Signal::MemoryAvailable].at >= at(90),
        "it is up to date for who asks"
    );
}

/// kubernetes/kubernetes#74706, Azure/aks-engine#604 (memory is gone before the next look).
#[tokio::test(start_paused = true)]
async fn the_kernel_may_ask_for_a_look_but_not_more_than_once_a_second() {
    let mut bench = Bench::new(&[hard(Signal::MemoryAvailable)], &[pod("hog")]);
    bench.pressed(Pressure::Memory, PressureState::Absent).await;
    bench.node.set_consumption("hog", memory(500));
    let before = bench.node.looks();
    for _ in 0..20 {
        bench.node.notify(MemoryNotice::Crossed);
        sleep(Duration::from_millis(100)).await;
    }
    assert!((1..=2).contains(&(bench.node.looks() - before)), "{}", bench.node.looks() - before);
    assert!(bench.kills.borrow().is_empty());
    bench.node.leave(Signal::MemoryAvailable, 0);
    bench.node.notify(MemoryNotice::Crossed);
    sleep(Duration::from_millis(1500)).await;
    assert_eq!(bench.kills.borrow().len(), 1);
}

/// kubernetes/kubernetes#74706, #43916 (page cache in use makes memory look short or plenty; what counts is whether tasks wait for it).
#[tokio::test(start_paused = true)]
async fn a_node_whose_tasks_wait_for_memory_evicts_although_enough_is_available() {
    let pods = ["small", "big"].map(pod);
    let mut bench = Bench::new(&[hard(Signal::MemoryAvailable)], &pods);
    bench.node.set_consumption("small", memory(10));
    bench.node.set_consumption("big", memory(200));
    bench.pressed(Pressure::Memory, PressureState::Absent).await;
    bench.node.notify(MemoryNotice::Stalled(StallKind::Full));
    let kill = bench.killed("big").await;
    let message = "The node was low on resource: memory. All tasks of the node waited for memory for more than 5% of the time. \
                   Container c was using 200, request is 0, has larger consumption of memory. ";
    assert_eq!((&*kill.status.message, kill.grace_seconds), (message, Some(1)));
    assert_eq!(bench.pressure.borrow().active(), [Pressure::Memory].into());
    bench.ended(&pods[1], true);
    // Once for each time.
    bench.nobody_else(1).await;
    assert!(bench.metrics.encode().contains("kubelet_evictions{eviction_signal=\"memory.stalled\"} 1"));
}

/// Such as those of a process outside of pods: what a pod gives back then is nothing.
#[tokio::test(start_paused = true)]
async fn tasks_that_wait_for_memory_cost_no_pod_that_uses_next_to_nothing() {
    let mut bench = Bench::new(&[hard(Signal::MemoryAvailable)], &[pod("tiny")]);
    bench.node.set_consumption("tiny", memory(1));
    bench.pressed(Pressure::Memory, PressureState::Absent).await;
    for _ in 0..5 {
        bench.node.notify(MemoryNotice::Stalled(StallKind::Full));
        sleep(Duration::from_secs(15)).await;
    }
    bench.nobody_else(0).await;
    let events = bench.events.clone();
    let stuck = || events.lock().iter().filter(|event| event.starts_with("NoPodToEvict")).count();
    assert_eq!(stuck(), 1, "once, as long as it lasts");
    bench.node.notify(MemoryNotice::Stalled(StallKind::Full));
    bench.nobody_else(0).await;
    assert_eq!(stuck(), 2, "again, after it was over");
}

#[tokio::test(start_paused = true)]
async fn that_no_pod_can_be_evicted_is_not_said_while_an_evicted_one_still_has_what_it_used() {
    let hog = pod("hog");
    let mut bench = Bench::new(&[hard(Signal::MemoryAvailable)], std::slice::from_ref(&hog));
    bench.node.set_consumption("hog", memory(500));
    bench.node.leave(Signal::MemoryAvailable, 0);
    bench.killed("hog").await;
    let events = bench.events.clone();
    let stuck = || events.lock().iter().filter(|event| event.starts_with("NoPodToEvict")).count();
    // Longer than its end is waited for.
    sleep(Duration::from_secs(100)).await;
    assert_eq!(stuck(), 0);
    bench.ended(&hog, true);
    sleep(Duration::from_secs(30)).await;
    assert_eq!(stuck(), 1, "its end did not help");
}
