//! Patches and their effect on an API server.

use std::collections::BTreeMap;

use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::Kind::{Node, PodStatus};
use super::{Kind, strategic};
use crate::api::fake::apply_strategic;

/// The status after a patch of its object.
fn patched(kind: Kind, old: &Value, patch: Option<Value>) -> Value {
    let (root, mut object, patch) = match kind {
        Node => ("Node", old.clone(), patch),
        PodStatus => ("Pod", json!({"status": old}), patch.map(|patch| json!({"status": patch}))),
    };
    if let Some(patch) = patch {
        apply_strategic(root, &mut object, &patch).unwrap();
    }
    if kind == PodStatus { object["status"].take() } else { object }
}

#[test]
fn equal_objects_need_no_patch() {
    let status = json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]});
    assert_eq!(strategic(PodStatus, &status, &status), None);
}

#[test]
fn conditions_are_patched_by_type_and_keep_their_order() {
    let old = json!({"conditions": [{"type": "Ready", "status": "False", "reason": "x"}]});
    let new = json!({"conditions": [{"type": "Initialized", "status": "True"}, {"type": "Ready", "status": "True"}]});
    let expected = json!({
        "$setElementOrder/conditions": [{"type": "Initialized"}, {"type": "Ready"}],
        "conditions": [
            {"type": "Initialized", "status": "True"},
            {"type": "Ready", "status": "True", "reason": null},
        ],
    });
    assert_eq!(strategic(PodStatus, &old, &new), Some(expected));
}

#[test]
fn a_condition_added_by_another_writer_survives() {
    let old = json!({"conditions": [{"type": "Ready", "status": "False"}]});
    let new = json!({"conditions": [{"type": "Ready", "status": "True"}]});
    let live = json!({"conditions": [{"type": "Ready", "status": "False"}, {"type": "KernelDeadlock", "status": "False"}]});
    let expected = json!({"conditions": [{"type": "Ready", "status": "True"}, {"type": "KernelDeadlock", "status": "False"}]});
    assert_eq!(patched(PodStatus, &live, strategic(PodStatus, &old, &new)), expected);
}

#[test]
fn a_new_address_replaces_the_previous_one() {
    for field in ["hostIPs", "podIPs"] {
        let old = json!({field: [{"ip": "192.0.2.1"}]});
        let new = json!({field: [{"ip": "192.0.2.2"}]});
        assert_eq!(patched(PodStatus, &old, strategic(PodStatus, &old, &new)), new);
    }
}

#[test]
fn addresses_are_replaced_because_two_may_have_one_type() {
    let ip = |ip: &str| json!({"type": "InternalIP", "address": ip});
    let old = json!({"status": {"addresses": [ip("10.0.0.1")]}});
    let new = json!({"status": {"addresses": [ip("10.0.0.1"), ip("fd00::1")]}});
    let patch = strategic(Node, &old, &new);
    let expected = json!([ip("10.0.0.1"), ip("fd00::1"), {"$patch": "replace"}]);
    let expected = json!({"status": {"addresses": expected}});
    assert_eq!(patch, Some(expected), "an API server refuses an order beside the directive");
    assert_eq!(patched(Node, &old, patch), new);
}

#[test]
fn items_of_a_set_are_added_and_removed_and_those_of_others_remain() {
    let of = |names: &[&str]| json!({"metadata": {"finalizers": names}});
    let patch = strategic(Node, &of(&["a", "b"]), &of(&["b", "c"]));
    let live = of(&["a", "b", "x"]);
    let after = patched(Node, &live, patch);
    let mut names: Vec<&str> =
        after["metadata"]["finalizers"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
    names.sort_unstable();
    assert_eq!(names, ["b", "c", "x"]);
}

fn scalar() -> impl Strategy<Value = Value> {
    prop_oneof![
        any::<bool>().prop_map(Value::from),
        (0..4u8).prop_map(Value::from),
        "[ab]{0,2}".prop_map(Value::from)
    ]
}

/// Items with a key and other fields, in any order; at least one, because a status has no empty lists.
fn items(key: &'static str) -> impl Strategy<Value = Value> {
    let fields = prop::collection::btree_map("f[0-2]", scalar(), 0..3);
    let item = move |(name, mut item): (String, BTreeMap<String, Value>)| {
        item.insert(key.to_owned(), name.into());
        Value::from_iter(item)
    };
    prop::collection::btree_map("[a-d]", fields, 1..4)
        .prop_map(move |items| items.into_iter().map(item).collect::<Vec<_>>())
        .prop_shuffle()
        .prop_map(Value::Array)
}

prop_compose! {
    fn status()(
        phase in prop::option::of(scalar()),
        info in prop::option::of(prop::collection::btree_map("[xy]", scalar(), 0..3)),
        conditions in prop::option::of(items("type")),
        ips in prop::option::of(items("ip")),
        hosts in prop::option::of(items("ip")),
        claims in prop::option::of(items("name")),
        containers in prop::option::of(items("name")),
        images in prop::option::of(prop::collection::vec(scalar(), 1..3)),
    ) -> Value {
        let mut status = Map::new();
        let fields = [
            ("phase", phase),
            ("info", info.map(|info| info.into_iter().collect())),
            ("conditions", conditions),
            ("podIPs", ips),
            ("hostIPs", hosts),
            ("resourceClaimStatuses", claims),
            ("containerStatuses", containers),
            ("images", images.map(Value::from)),
        ];
        for (field, value) in fields {
            if let Some(value) = value {
                status.insert(field.to_owned(), value);
            }
        }
        Value::Object(status)
    }
}

prop_compose! {
    fn node()(
        addresses in prop::option::of(prop::collection::vec(items("type"), 1..3)),
        conditions in prop::option::of(items("type")),
        labels in prop::option::of(prop::collection::btree_map("[xy]", scalar(), 0..3)),
    ) -> Value {
        let mut node = json!({"metadata": {}, "status": {}});
        if let Some(addresses) = addresses {
            let mut doubled: Vec<Value> = addresses.iter().flat_map(|all| all.as_array().unwrap().clone()).collect();
            // A server groups them by type.
            doubled.sort_by_key(|address| address["type"].to_string());
            node["status"]["addresses"] = doubled.into();
        }
        if let Some(conditions) = conditions {
            node["status"]["conditions"] = conditions;
        }
        if let Some(labels) = labels {
            node["metadata"]["labels"] = labels.into_iter().collect();
        }
        node
    }
}

proptest! {
    #[test]
    fn a_patch_of_the_old_status_gives_the_new_one(old in status(), new in status()) {
        prop_assert_eq!(patched(PodStatus, &old, strategic(PodStatus, &old, &new)), new);
    }

    #[test]
    fn a_patch_of_the_old_node_gives_the_new_one(old in node(), new in node()) {
        prop_assert_eq!(patched(Node, &old, strategic(Node, &old, &new)), new);
    }
}
