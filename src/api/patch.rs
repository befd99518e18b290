//! The difference of two API objects as a strategic merge patch, the kind of patch the kubelet sends for statuses. Pure.
//!
//! A list whose items have a merge key is patched item by item, so that what others wrote into it meanwhile survives (a
//! node's conditions have several writers); any other list is replaced as a whole. Rules:
//! <https://github.com/kubernetes/community/blob/main/contributors/devel/sig-api-machinery/strategic-merge-patch.md>

use std::collections::HashSet;

use serde_json::{Map, Value};

/// How a list is patched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ListPatch {
    /// Item by item; the field that names an item.
    Keyed(&'static str),
    /// Item by item to the server, but its merge key does not tell items apart: the list is sent whole and told to
    /// replace the other.
    KeyedAmbiguously(&'static str),
    /// As a whole.
    Atomic,
}

/// The patch strategy of the list in `field` of a Pod or Node (`patchStrategy` and `patchMergeKey` in `core/v1`).
fn list_patch(field: &str) -> ListPatch {
    match field {
        "conditions" => ListPatch::Keyed("type"),
        "podIPs" => ListPatch::Keyed("ip"),
        "resourceClaimStatuses" => ListPatch::Keyed("name"),
        "ownerReferences" => ListPatch::Keyed("uid"),
        // Two InternalIPs have the same type.
        "addresses" => ListPatch::KeyedAmbiguously("type"),
        _ => ListPatch::Atomic,
    }
}

/// The patch that makes `new` of `old`, two objects of the same kind or the same part of two; `None` if they are equal.
pub fn strategic(old: &Value, new: &Value) -> Option<Value> {
    match (old, new) {
        (Value::Object(old), Value::Object(new)) => {
            let patch = objects(old, new);
            (!patch.is_empty()).then_some(Value::Object(patch))
        }
        (old, new) => (old != new).then(|| new.clone()),
    }
}

fn objects(old: &Map<String, Value>, new: &Map<String, Value>) -> Map<String, Value> {
    let mut patch = Map::new();
    for (field, value) in new {
        match (old.get(field), value) {
            (Some(before), now) if before == now => {}
            (Some(Value::Object(before)), Value::Object(now)) => {
                patch.insert(field.clone(), Value::Object(objects(before, now)));
            }
            // The API leaves empty lists out.
            (None, Value::Array(now)) if now.is_empty() => {}
            (before, Value::Array(now)) => lists(field, before, now, &mut patch),
            (_, now) => {
                patch.insert(field.clone(), now.clone());
            }
        }
    }
    // Null takes a field away.
    for field in old.keys().filter(|field| !new.contains_key(*field)) {
        patch.insert(field.clone(), Value::Null);
    }
    patch
}

fn lists(field: &str, before: Option<&Value>, now: &[Value], patch: &mut Map<String, Value>) {
    let before = before.and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    match list_patch(field) {
        ListPatch::Atomic => {
            patch.insert(field.to_owned(), Value::Array(now.to_vec()));
        }
        ListPatch::KeyedAmbiguously(key) => {
            let mut items = now.to_vec();
            items.push(Value::Object(Map::from_iter([("$patch".to_owned(), "replace".into())])));
            patch.insert(field.to_owned(), Value::Array(items));
            patch.insert(format!("$setElementOrder/{field}"), Value::Array(keys(key, now)));
        }
        ListPatch::Keyed(key) => {
            let items = keyed(key, before, now);
            if !items.is_empty() {
                patch.insert(field.to_owned(), Value::Array(items));
            }
            patch.insert(format!("$setElementOrder/{field}"), Value::Array(keys(key, now)));
        }
    }
}

/// What changes item by item.
fn keyed(key: &str, before: &[Value], now: &[Value]) -> Vec<Value> {
    let mut items = Vec::new();
    for item in now {
        match find(key, before, item).map(|old| (old, item)) {
            None => items.push(item.clone()),
            Some((Value::Object(old), Value::Object(new))) => {
                let mut change = objects(old, new);
                if !change.is_empty() {
                    change.insert(key.to_owned(), new[key].clone());
                    items.push(Value::Object(change));
                }
            }
            Some(_) => {}
        }
    }
    let kept: HashSet<&str> = now.iter().filter_map(|item| item[key].as_str()).collect();
    let gone = before.iter().filter_map(|item| item[key].as_str()).filter(|name| !kept.contains(name));
    items.extend(gone.map(|name| {
        let delete = [("$patch".to_owned(), "delete".into()), (key.to_owned(), name.into())];
        Value::Object(Map::from_iter(delete))
    }));
    items
}

fn find<'a>(key: &str, items: &'a [Value], wanted: &Value) -> Option<&'a Value> {
    items.iter().find(|item| item[key] == wanted[key])
}

/// The items with nothing but their keys, which tells their order.
fn keys(key: &str, items: &[Value]) -> Vec<Value> {
    let name = |item: &Value| Value::Object(Map::from_iter([(key.to_owned(), item[key].clone())]));
    items.iter().map(name).collect()
}

#[cfg(any(test, feature = "fakes"))]
pub(crate) mod apply {
    //! What an API server makes of such a patch, for the fake one and for tests of the patches.

    use serde_json::{Map, Value};

    use super::{ListPatch, list_patch};

    /// Applies a strategic merge patch.
    pub(crate) fn strategic(target: &mut Value, patch: &Value) {
        match (target, patch) {
            (Value::Object(target), Value::Object(patch)) => objects(target, patch),
            (target, patch) => *target = patch.clone(),
        }
    }

    fn objects(target: &mut Map<String, Value>, patch: &Map<String, Value>) {
        for (field, value) in patch {
            match value {
                _ if field.starts_with('$') => {}
                Value::Null => {
                    target.remove(field);
                }
                Value::Object(_) => {
                    let inner = target.entry(field.clone()).or_insert_with(|| Value::Object(Map::new()));
                    strategic(inner, value);
                }
                Value::Array(items) => list(field, items, target),
                value => {
                    target.insert(field.clone(), value.clone());
                }
            }
        }
        for (directive, order) in patch {
            let Some(field) = directive.strip_prefix("$setElementOrder/") else { continue };
            let (ListPatch::Keyed(key) | ListPatch::KeyedAmbiguously(key)) = list_patch(field) else {
                continue;
            };
            if let (Some(Value::Array(items)), Value::Array(order)) = (target.get_mut(field), order) {
                let place = |item: &Value| order.iter().position(|name| name[key] == item[key]);
                // What the patch does not name comes last, in the order it had.
                items.sort_by_key(|item| place(item).unwrap_or(order.len()));
            }
        }
    }

    fn list(field: &str, items: &[Value], target: &mut Map<String, Value>) {
        let (ListPatch::Keyed(key) | ListPatch::KeyedAmbiguously(key)) = list_patch(field) else {
            target.insert(field.to_owned(), Value::Array(items.to_vec()));
            return;
        };
        if items.iter().any(|item| item["$patch"] == "replace") {
            let whole = items.iter().filter(|item| item["$patch"] != "replace").cloned().collect();
            target.insert(field.to_owned(), Value::Array(whole));
            return;
        }
        let entry = target.entry(field.to_owned()).or_insert_with(|| Value::Array(Vec::new()));
        let Value::Array(present) = entry else { return };
        for item in items {
            let at = present.iter().position(|old| old[key] == item[key]);
            match (at, item["$patch"] == "delete") {
                (Some(at), true) => drop(present.remove(at)),
                (None, true) => {}
                (Some(at), false) => strategic(&mut present[at], item),
                (None, false) => present.push(item.clone()),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn patched(mut old: Value, patch: Option<Value>) -> Value {
        if let Some(patch) = patch {
            apply::strategic(&mut old, &patch);
        }
        old
    }

    #[test]
    fn equal_objects_need_no_patch() {
        let status = json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]});
        assert_eq!(strategic(&status, &status), None);
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
        assert_eq!(strategic(&old, &new), Some(expected));
    }

    #[test]
    fn a_condition_that_somebody_else_added_meanwhile_survives() {
        let old = json!({"conditions": [{"type": "Ready", "status": "False"}]});
        let new = json!({"conditions": [{"type": "Ready", "status": "True"}]});
        let live = json!({"conditions": [{"type": "Ready", "status": "False"}, {"type": "KernelDeadlock", "status": "False"}]});
        let expected = json!({"conditions": [{"type": "Ready", "status": "True"}, {"type": "KernelDeadlock", "status": "False"}]});
        assert_eq!(patched(live, strategic(&old, &new)), expected);
    }

    #[test]
    fn addresses_replace_each_other_because_their_type_names_two_of_them() {
        let ip = |ip: &str| json!({"type": "InternalIP", "address": ip});
        let old = json!({"addresses": [ip("10.0.0.1")]});
        let new = json!({"addresses": [ip("10.0.0.1"), ip("fd00::1")]});
        let patch = strategic(&old, &new);
        let expected = json!([ip("10.0.0.1"), ip("fd00::1"), {"$patch": "replace"}]);
        assert_eq!(patch.as_ref().map(|patch| &patch["addresses"]), Some(&expected));
        assert_eq!(patched(old, patch), new);
    }

    fn scalar() -> impl Strategy<Value = Value> {
        prop_oneof![
            any::<bool>().prop_map(Value::from),
            (0..4u8).prop_map(Value::from),
            "[ab]{0,2}".prop_map(Value::from)
        ]
    }

    /// Items with a key and some more fields, in any order; at least one, as a status has no empty lists.
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
            addresses in prop::option::of(items("type")),
            images in prop::option::of(prop::collection::vec(scalar(), 1..3)),
        ) -> Value {
            let mut status = Map::new();
            let fields = [
                ("phase", phase),
                ("info", info.map(|info| info.into_iter().collect())),
                ("conditions", conditions),
                ("podIPs", ips),
                ("addresses", addresses),
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

    proptest! {
        #[test]
        fn a_patch_applied_to_the_old_gives_the_new(old in status(), new in status()) {
            prop_assert_eq!(patched(old.clone(), strategic(&old, &new)), new);
        }
    }
}
