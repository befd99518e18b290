//! Steps to a CSINode, and what they lead to.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

const ALL_MIGRATED: &str = "kubernetes.io/aws-ebs,kubernetes.io/azure-disk,kubernetes.io/azure-file,kubernetes.io/cinder,\
                            kubernetes.io/gce-pd,kubernetes.io/portworx-volume,kubernetes.io/vsphere-volume";

fn info(id: &str, max_volumes: Option<i64>, keys: &[&str]) -> NodeInfo {
    let topology = keys.iter().map(|key| ((*key).to_owned(), "value".to_owned())).collect();
    NodeInfo { node_id: id.to_owned(), max_volumes, topology }
}

fn infos(all: &[(&str, NodeInfo)]) -> NodeInfos {
    all.iter().map(|(name, info)| ((*name).to_owned(), info.clone())).collect()
}

fn step(found: Option<&CSINode>, drivers: &NodeInfos, removed: &[&str]) -> CsiNodeStep {
    let removed = removed.iter().map(|name| (*name).to_owned()).collect();
    next_step(found, &DesiredCsiNode { node: "n", uid: "u", drivers, removed: &removed })
}

/// The object as the server has it.
fn stored(drivers: Value, migrated: &str) -> CSINode {
    let owner = json!({"apiVersion": "v1", "kind": "Node", "name": "n", "uid": "u"});
    let metadata = json!({"name": "n", "uid": "c", "resourceVersion": "7", "ownerReferences": [owner],
        "annotations": {MIGRATED_PLUGINS: migrated}});
    serde_json::from_value(json!({"metadata": metadata, "spec": {"drivers": drivers}})).unwrap()
}

#[test]
fn a_new_one_is_owned_by_the_node_and_names_the_migrated_types() {
    let CsiNodeStep::Create(new) = step(None, &NodeInfos::new(), &[]) else { panic!() };
    let owner = json!({"apiVersion": "v1", "kind": "Node", "name": "n", "uid": "u"});
    let expected = json!({"apiVersion": "storage.k8s.io/v1", "kind": "CSINode",
        "metadata": {"name": "n", "ownerReferences": [owner], "annotations": {MIGRATED_PLUGINS: ALL_MIGRATED}},
        "spec": {"drivers": []}});
    assert_eq!(serde_json::to_value(*new).unwrap(), expected);
}

#[test]
fn one_of_an_earlier_node_is_deleted() {
    let mut found = stored(json!([]), ALL_MIGRATED);
    for (field, value) in [("uid", "u0"), ("kind", "Pod"), ("name", "n0")] {
        let mut owner = json!({"apiVersion": "v1", "kind": "Node", "name": "n", "uid": "u"});
        owner[field] = json!(value);
        found.metadata.owner_references = Some(vec![serde_json::from_value(owner).unwrap()]);
        let expected = CsiNodeStep::Delete { uid: Some("c".to_owned()) };
        assert_eq!(step(Some(&found), &NodeInfos::new(), &[]), expected);
    }
}

#[test]
fn drivers_are_added_changed_and_removed_and_others_stay() {
    let other = json!({"name": "other", "nodeID": "x", "topologyKeys": null});
    let found =
        stored(json!([{"name": "a", "nodeID": "i-1", "topologyKeys": ["r", "z"]}, other]), ALL_MIGRATED);
    let same = infos(&[("a", info("i-1", None, &["z", "r"]))]);
    assert_eq!(step(Some(&found), &same, &[]), CsiNodeStep::Nothing, "other may register yet");
    let drivers = infos(&[("a", info("i-1", Some(25), &["z"])), ("b", info("i", Some(1 << 40), &[]))]);
    let CsiNodeStep::Replace(new) = step(Some(&found), &drivers, &["other", "unknown"]) else { panic!() };
    let expected = json!([
        {"name": "a", "nodeID": "i-1", "topologyKeys": ["z"], "allocatable": {"count": 25}},
        {"name": "b", "nodeID": "i", "allocatable": {"count": i32::MAX}},
    ]);
    assert_eq!(serde_json::to_value(&new.spec.drivers).unwrap(), expected);
    assert_eq!(new.metadata.resource_version.as_deref(), Some("7"), "of what was found");
    assert_eq!(step(Some(&*new), &drivers, &["other"]), CsiNodeStep::Nothing);
}

#[test]
fn no_limit_and_an_invalid_one_are_absent() {
    for max in [None, Some(0), Some(-1)] {
        let CsiNodeStep::Create(new) = step(None, &infos(&[("a", info("i", max, &[]))]), &[]) else {
            panic!()
        };
        assert_eq!(new.spec.drivers[0].allocatable, None);
    }
    let limited = json!([{"name": "a", "nodeID": "i", "topologyKeys": null, "allocatable": {"count": 3}}]);
    let found = stored(limited, ALL_MIGRATED);
    let step = step(Some(&found), &infos(&[("a", info("i", None, &[]))]), &[]);
    assert!(matches!(step, CsiNodeStep::Replace(new) if new.spec.drivers[0].allocatable.is_none()));
}

#[test]
fn the_order_of_the_migrated_types_does_not_matter() {
    let turned: Vec<&str> = MIGRATED.iter().rev().copied().collect();
    assert_eq!(
        step(Some(&stored(json!([]), &turned.join(","))), &NodeInfos::new(), &[]),
        CsiNodeStep::Nothing
    );
    for fewer in ["", "kubernetes.io/gce-pd"] {
        let step = step(Some(&stored(json!([]), fewer)), &NodeInfos::new(), &[]);
        let CsiNodeStep::Replace(new) = step else { panic!() };
        assert_eq!(new.metadata.annotations.unwrap()[MIGRATED_PLUGINS], ALL_MIGRATED);
    }
}

fn any_infos() -> impl Strategy<Value = NodeInfos> {
    let id = prop::sample::select(vec!["i", "j"]);
    let keys = prop::sample::subsequence(vec!["x", "y"], 0..=2);
    let one = (id, prop::option::of(-1_i64..3), keys).prop_map(|(id, max, keys)| info(id, max, &keys));
    prop::collection::btree_map(prop::sample::select(vec!["a", "b", "c"]).prop_map(str::to_owned), one, 0..4)
}

proptest! {
    /// Whatever was there, one write leads to a CSINode that needs no other, and that has every registered driver once.
    #[test]
    fn a_step_on_its_own_result_is_nothing(before in any_infos(), after in any_infos()) {
        let CsiNodeStep::Create(found) = step(None, &before, &[]) else { panic!() };
        let gone: Vec<&str> = before.keys().filter(|name| !after.contains_key(*name)).map(String::as_str).collect();
        let node = match step(Some(&found), &after, &gone) {
            CsiNodeStep::Replace(node) => node,
            CsiNodeStep::Nothing => found,
            other => panic!("{other:?}"),
        };
        prop_assert_eq!(step(Some(&node), &after, &gone), CsiNodeStep::Nothing);
        let mut names: Vec<&str> = node.spec.drivers.iter().map(|driver| driver.name.as_str()).collect();
        names.sort_unstable();
        prop_assert_eq!(names, after.keys().map(String::as_str).collect::<Vec<_>>());
    }
}
