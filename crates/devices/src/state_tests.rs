//! Decisions: who gets which devices while plugins come, go and change. Names the reports of users that a test answers.

use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;

use super::*;
use crate::device::{DeviceList, Health};
use crate::inventory::{ConnectionId, GRACE};
use crate::testing::{DAY, GPU, World, container, ids, list, pod, sidecar};

fn gpus(uid: &str, count: usize) -> Pod {
    pod(uid, &[], &[container("main", count)])
}

const NONE_HEALTHY: &str = "no healthy devices present; cannot allocate unhealthy devices example.com/gpu";

#[test]
fn devices_are_allocated_once_and_come_back_with_their_pod() {
    let mut world = World::with(&["a", "b", "c"]);
    assert_eq!(world.admit(&gpus("u1", 2)), Ok(vec![ids(&["a", "b"])]));
    assert_eq!(world.admit(&gpus("u1", 2)), Ok(vec![ids(&["a", "b"])]), "a second time nothing changes");
    assert_eq!(
        world.admit(&gpus("u2", 2)).unwrap_err(),
        "requested number of devices unavailable for example.com/gpu. Requested: 2, Available: 1"
    );
    assert_eq!(
        world.admit(&gpus("u1", 1)).unwrap_err(),
        "pod \"u1\" container \"main\" changed request for resource \"example.com/gpu\" from 2 to 1"
    );
    world.state.allocations.retain(&["u3".into()].into());
    assert_eq!(world.admit(&gpus("u2", 3)), Ok(vec![ids(&["a", "b", "c"])]));
}

#[test]
fn init_containers_share_with_those_after_them_and_sidecars_with_nobody() {
    let mut world = World::with(&["a", "b", "c", "d"]);
    let pod = pod(
        "u1",
        &[container("first", 2), sidecar("sidecar", 1), container("second", 2)],
        &[container("main", 1), container("other", 1)],
    );
    let allocated = world.admit(&pod).unwrap();
    assert_eq!(
        allocated,
        [ids(&["a", "b"]), ids(&["a"]), ids(&["b", "c"]), ids(&["b"]), ids(&["c"])],
        "a is the sidecar's while the others run"
    );
    assert_eq!(world.state.allocations.in_use(GPU), ids(&["a", "b", "c"]));
    assert_eq!(world.admit(&pod).unwrap(), allocated);
}

#[test]
fn what_the_node_never_had_is_no_device() {
    let mut world = World::after(DAY, &[], Allocations::default());
    assert_eq!(world.admit(&gpus("u1", 1)), Ok(vec![ids(&[])]));
    assert!(!world.state.is_device(GPU));
}

/// kubernetes/kubernetes#125579, #109595, #128043, squat/generic-device-plugin#33: after a reboot pods are admitted before their plugin is
/// back.
#[test]
fn after_a_reboot_a_pod_waits_for_its_plugin() {
    let mut before = World::with(&["a", "b"]);
    before.admit(&gpus("old", 1)).unwrap();
    let minute = Duration::from_secs(60);
    let mut world = World::after(minute, &["a", "b"], before.state.allocations);
    for pod in [gpus("old", 1), gpus("new", 1)] {
        let awaited = world.awaited(&pod);
        assert_eq!(awaited.reason, "waits for example.com/gpu: its device plugin is not registered");
        assert_eq!(awaited.until - world.now, 4 * minute, "five minutes after the host booted");
    }
    assert_eq!(world.state.inventory.counts().collect::<Vec<_>>(), [(GPU, 0, 0)]);
    world.passes(3 * minute);
    let id = world.connect("p.sock", PluginOptions::default());
    let awaited = world.awaited(&gpus("old", 1));
    assert_eq!(awaited.reason, "waits for example.com/gpu: its device plugin has not listed devices");
    // Its devices come one by one.
    world.list(id, list(&[("b", Health::Healthy)]));
    let awaited = world.awaited(&gpus("old", 1));
    assert_eq!(awaited.reason, "waits for example.com/gpu: its device plugin has 1 of 2 healthy devices");
    assert_eq!(
        world.admit(&gpus("new", 1)),
        Ok(vec![ids(&["b"])]),
        "one that can have a device does not wait"
    );
    world.list(id, list(&[("a", Health::Healthy), ("b", Health::Healthy)]));
    assert_eq!(world.admit(&gpus("old", 1)), Ok(vec![ids(&["a"])]));
}

#[test]
fn the_wait_for_a_plugin_ends_and_the_pod_fails_as_upstream() {
    let mut world = World::after(Duration::ZERO, &["a"], Allocations::default());
    let until = world.awaited(&gpus("u1", 1)).until;
    world.passes(until - world.now);
    assert_eq!(world.admit(&gpus("u1", 1)), Err(NONE_HEALTHY.to_owned()));
    world.passes(Duration::from_secs(1));
    assert_eq!(
        world.admit(&gpus("u1", 1)),
        Err("cannot allocate unregistered device example.com/gpu".to_owned()),
        "the grace period is over, and the pod does not start without its device"
    );
}

#[test]
fn a_device_that_does_not_come_back_fails_its_pod_when_the_wait_is_over() {
    let mut before = World::with(&["a", "b"]);
    before.admit(&gpus("old", 1)).unwrap();
    let mut world = World::after(Duration::ZERO, &["a", "b"], before.state.allocations);
    world.plugin(&["b", "c"]);
    assert_eq!(
        world.admit(&gpus("old", 1)).unwrap_err(),
        "previously allocated devices are no longer healthy; cannot allocate unhealthy devices example.com/gpu",
        "as many are there as before"
    );
}

/// kubernetes/kubernetes#119248: a plugin restarts while a pod is admitted.
#[test]
fn a_plugin_that_restarts_is_waited_for() {
    let mut world = World::with(&["a"]);
    world.disconnect(ConnectionId(1));
    let awaited = world.awaited(&gpus("u1", 1));
    assert_eq!(awaited.until - world.now, Duration::from_secs(30));
    world.plugin(&["a"]);
    assert_eq!(world.admit(&gpus("u1", 1)), Ok(vec![ids(&["a"])]));
}

#[test]
fn unhealthy_devices_are_not_waited_for() {
    let mut world = World::with(&["a"]);
    world.list(ConnectionId(1), list(&[("a", Health::Unhealthy)]));
    assert_eq!(world.admit(&gpus("u1", 1)), Err(NONE_HEALTHY.to_owned()));
}

/// kubernetes/kubernetes#138446, #133382, #118559, #124345: after a restart of the kubelet running pods are ended, above all those with
/// devices in init containers; #117955: those with a completed container.
#[test]
fn a_running_pod_keeps_its_devices_whatever_becomes_of_the_plugin() {
    let running = pod("u1", &[container("init", 1)], &[container("main", 1), container("completed", 1)]);
    let mut before = World::with(&["a", "b"]);
    let allocated = before.admit(&running).unwrap();
    let mut world = World::after(DAY, &["a", "b"], before.state.allocations);
    let readmit = |world: &mut World| -> Vec<DeviceIds> {
        let all = ["init", "main", "completed"];
        all.map(|container| world.allocate(&running, container, PodStage::Running).unwrap()).into()
    };
    assert_eq!(readmit(&mut world), allocated, "the plugin is not back");
    world.plugin(&["c"]);
    assert_eq!(readmit(&mut world), allocated, "it has other devices");
    world.disconnect(ConnectionId(1));
    world.passes(GRACE + Duration::from_secs(1));
    assert_eq!(readmit(&mut world), allocated, "it is removed");
    // The checkpoint was lost.
    let mut world = World::after(DAY, &["a", "b"], Allocations::default());
    assert_eq!(readmit(&mut world), [ids(&[]), ids(&[]), ids(&[])]);
}

#[test]
fn a_plugin_that_comes_back_with_other_devices_takes_none_away() {
    let mut world = World::with(&["a", "b"]);
    world.admit(&gpus("u1", 1)).unwrap();
    world.disconnect(ConnectionId(1));
    world.plugin(&["c", "d"]);
    assert_eq!(world.admit(&gpus("u2", 2)), Ok(vec![ids(&["c", "d"])]));
    assert_eq!(world.state.allocations.of_pod(&"u1".into(), GPU), ids(&["a"]));
    assert_eq!(world.state.inventory.health(GPU, "a"), Health::Unknown);
    world.list(ConnectionId(2), list(&[("a", Health::Healthy), ("c", Health::Healthy)]));
    assert_eq!(
        world.admit(&gpus("u3", 1)).unwrap_err().split('.').next(),
        Some("requested number of devices unavailable for example")
    );
}

#[test]
fn capacity_is_upstreams() {
    let mut world = World::with(&["a", "b"]);
    let counts = |world: &World| world.state.inventory.counts().map(|(_, all, usable)| (all, usable)).next();
    assert_eq!(counts(&world), Some((2, 2)));
    world.list(ConnectionId(1), list(&[("a", Health::Healthy), ("b", Health::Unhealthy)]));
    assert_eq!(counts(&world), Some((2, 1)));
    world.disconnect(ConnectionId(1));
    assert_eq!(counts(&world), Some((2, 0)), "nothing can be used while the plugin is away");
    world.passes(GRACE);
    assert_eq!(counts(&world), Some((2, 0)));
    assert!(world.state.inventory.next_expiry().unwrap() > world.now);
    world.passes(Duration::from_millis(1));
    assert_eq!(counts(&world), None);
    assert!(world.state.inventory.removed().contains(GPU));
    world.plugin(&["a"]);
    assert_eq!(counts(&world), Some((1, 1)));
    assert!(world.state.inventory.removed().is_empty());
}

#[test]
fn two_instances_of_a_plugin_leave_no_gap() {
    let mut world = World::with(&["a"]);
    let new = world.connect("new.sock", PluginOptions::default());
    assert_eq!(world.state.inventory.healthy(GPU), ids(&["a"]), "until the new one lists its devices");
    let changed = world.list(new, list(&[("a", Health::Unhealthy), ("b", Health::Healthy)]));
    assert_eq!(changed, ids(&["a", "b"]));
    assert_eq!(world.state.inventory.healthy(GPU), ids(&["b"]));
    assert_eq!(
        world.list(ConnectionId(1), list(&[("z", Health::Healthy)])),
        ids(&[]),
        "the older one does not serve"
    );
    world.disconnect(new);
    assert_eq!(world.state.inventory.healthy(GPU), ids(&["z"]), "it does again");
}

#[test]
fn hints_are_those_of_what_is_held_free_or_reusable() {
    let mut world = World::with(&[]);
    let near = |node: i64| crate::device::Device { health: Health::Healthy, nodes: [node].into() };
    let all: DeviceList =
        [("a", 0), ("b", 0), ("c", 1), ("d", 1)].map(|(id, node)| (id.to_owned(), near(node))).into();
    world.list(ConnectionId(1), all);
    let hints = |world: &World, pod: &Pod, container: &str| -> Vec<(Vec<u32>, bool)> {
        let hints = world.state.hints(&PodRequests::of(pod), container).remove(GPU).unwrap();
        let nodes = |hint: &Hint| (0..2).filter(|node| hint.nodes.unwrap().contains(*node)).collect();
        hints.iter().map(|hint| (nodes(hint), hint.preferred)).collect()
    };
    let both = vec![(vec![0], true), (vec![1], true), (vec![0, 1], false)];
    let with_init = pod("u1", &[container("init", 2)], &[container("main", 1)]);
    assert_eq!(hints(&world, &with_init, "init"), both);
    world.allocate(&with_init, "init", PodStage::New).unwrap();
    let held = vec![(vec![0], true), (vec![0, 1], false)];
    assert_eq!(hints(&world, &with_init, "init"), held, "those that it has");
    assert_eq!(hints(&world, &with_init, "main"), held, "the init container's are reused");
    assert_eq!(hints(&world, &gpus("u2", 3), "main"), vec![], "too few are left");
    let pod_hints = world.state.pod_hints(&PodRequests::of(&with_init));
    assert_eq!(pod_hints[GPU].len(), 2);
    assert!(world.state.hints(&PodRequests::of(&gpus("u2", 1)), "other").is_empty());
}

#[test]
fn a_container_starts_with_what_its_plugin_prepares() {
    let mut world = World::after(DAY, &[], Allocations::default());
    let prepare = PluginOptions { pre_start: true, preferences: false };
    let id = world.connect("p.sock", prepare);
    world.list(id, list(&[("a", Health::Healthy)]));
    world.admit(&gpus("u1", 1)).unwrap();
    let uid = PodUid::from("u1");
    let prepared = |world: &World, stage| {
        let preparations = world.state.preparations(&uid, "main", stage, world.now);
        preparations.map(|all| all.into_iter().map(|one| one.devices).collect::<Vec<_>>())
    };
    assert_eq!(prepared(&world, PodStage::Running), Ok(vec![ids(&["a"])]));
    world.disconnect(id);
    assert_eq!(
        prepared(&world, PodStage::Running).unwrap_err().to_string(),
        "device plugin PreStartContainer rpc failed with err: endpoint of example.com/gpu has been stopped"
    );
    // After a reboot.
    let mut world = World::after(Duration::ZERO, &["a"], world.state.allocations);
    assert!(matches!(prepared(&world, PodStage::New), Err(PreStartError::NotYet(_))));
    assert_eq!(prepared(&world, PodStage::Running), Ok(vec![]), "it ran already, with its device");
    world.plugin(&["a"]);
    assert_eq!(prepared(&world, PodStage::New), Ok(vec![]));
    world.list(ConnectionId(1), list(&[("a", Health::Unhealthy), ("b", Health::Healthy)]));
    assert!(matches!(
        prepared(&world, PodStage::New),
        Err(PreStartError::Unusable(AllocateFailure::Unhealthy { .. }))
    ));
}
