//! Two-way strategic merge patches, as created by client-go. Pure.
//!
//! A list with a merge key is patched item by item, so that concurrent changes of other writers survive (a node's conditions
//! have several writers); any other list is replaced as a whole. The strategies are generated from the API's types
//! (`strategies`). Rules:
//! <https://github.com/kubernetes/community/blob/main/contributors/devel/sig-api-machinery/strategic-merge-patch.md>

use std::collections::HashSet;

use serde_json::{Map, Value};

use super::strategies::FIELDS;

/// The kind of a patched object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Node,
    PodStatus,
}

impl Kind {
    fn type_name(self) -> &'static str {
        match self {
            Self::Node => "Node",
            Self::PodStatus => "PodStatus",
        }
    }
}

/// The patch strategy of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Strategy {
    /// A value or list is replaced; an object is patched field by field, all of this strategy.
    Plain,
    /// An object, patched field by field by its type.
    Object(&'static str),
    /// A set of scalars.
    Set,
    /// A list, patched item by item.
    Keyed { key: &'static str, item: &'static str },
}

impl Strategy {
    fn of(type_name: &str, field: &str) -> Self {
        let row = FIELDS.iter().find(|(of, name, _, _)| *of == type_name && *name == field);
        match row {
            None => Self::Plain,
            Some((_, _, item, "")) => Self::Object(item),
            Some((_, _, _, "=")) => Self::Set,
            Some((_, _, item, key)) => Self::Keyed { key, item },
        }
    }
}

/// The patch from `old` to `new`, two objects of this kind or the same part of them; `None` if they are equal.
pub(crate) fn strategic(kind: Kind, old: &Value, new: &Value) -> Option<Value> {
    match (old, new) {
        (Value::Object(old), Value::Object(new)) => {
            let patch = objects(kind.type_name(), old, new);
            (!patch.is_empty()).then_some(Value::Object(patch))
        }
        (old, new) => (old != new).then(|| new.clone()),
    }
}

fn objects(type_name: &str, old: &Map<String, Value>, new: &Map<String, Value>) -> Map<String, Value> {
    let mut patch = Map::new();
    for (field, value) in new {
        let strategy = Strategy::of(type_name, field);
        match (old.get(field), value) {
            (Some(before), now) if before == now => {}
            (Some(Value::Object(before)), Value::Object(now)) => {
                let inner = if let Strategy::Object(inner) = strategy { inner } else { "" };
                patch.insert(field.clone(), Value::Object(objects(inner, before, now)));
            }
            // The API omits empty lists.
            (None, Value::Array(now)) if now.is_empty() => {}
            (before, Value::Array(now)) => {
                let before = before.and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
                lists(strategy, field, before, now, &mut patch);
            }
            (_, now) => {
                patch.insert(field.clone(), now.clone());
            }
        }
    }
    // Null removes a field.
    for field in old.keys().filter(|field| !new.contains_key(*field)) {
        patch.insert(field.clone(), Value::Null);
    }
    patch
}

fn lists(strategy: Strategy, field: &str, before: &[Value], now: &[Value], patch: &mut Map<String, Value>) {
    let order = format!("$setElementOrder/{field}");
    match strategy {
        Strategy::Plain | Strategy::Object(_) => {
            patch.insert(field.to_owned(), Value::Array(now.to_vec()));
        }
        Strategy::Set => {
            let missing = |from: &[Value], of: &[Value]| -> Vec<Value> {
                of.iter().filter(|item| !from.contains(item)).cloned().collect()
            };
            let (added, removed) = (missing(before, now), missing(now, before));
            if !added.is_empty() {
                patch.insert(field.to_owned(), Value::Array(added));
            }
            if !removed.is_empty() {
                patch.insert(format!("$deleteFromPrimitiveList/{field}"), Value::Array(removed));
            }
            patch.insert(order, Value::Array(now.to_vec()));
        }
        Strategy::Keyed { key, .. } if is_whole(field, key, before, now) => {
            let mut items = now.to_vec();
            items.push(Value::Object(Map::from_iter([("$patch".to_owned(), "replace".into())])));
            // In list order: the API server rejects `$setElementOrder` together with the directive.
            patch.insert(field.to_owned(), Value::Array(items));
        }
        Strategy::Keyed { key, item } => {
            let items = keyed(key, item, before, now);
            if !items.is_empty() {
                patch.insert(field.to_owned(), Value::Array(items));
            }
            patch.insert(order, Value::Array(keys(key, now)));
        }
    }
}

/// Whether a list is replaced although it has a merge key, because the key is not unique. A node may have two addresses of
/// one type, possibly only on the server, so addresses are always replaced, as by the stock kubelet.
fn is_whole(field: &str, key: &str, before: &[Value], now: &[Value]) -> bool {
    let is_ambiguous = |items: &[Value]| {
        let mut seen = HashSet::new();
        items.iter().any(|item| item[key].is_null() || !seen.insert(&item[key]))
    };
    field == "addresses" || is_ambiguous(before) || is_ambiguous(now)
}

/// The changes item by item.
fn keyed(key: &str, type_name: &str, before: &[Value], now: &[Value]) -> Vec<Value> {
    let mut items = Vec::new();
    for item in now {
        match before.iter().find(|old| old[key] == item[key]).map(|old| (old, item)) {
            None => items.push(item.clone()),
            Some((Value::Object(old), Value::Object(new))) => {
                let mut change = objects(type_name, old, new);
                if !change.is_empty() {
                    change.insert(key.to_owned(), new[key].clone());
                    items.push(Value::Object(change));
                }
            }
            Some(_) => {}
        }
    }
    let removed =
        before.iter().map(|item| &item[key]).filter(|name| now.iter().all(|item| item[key] != **name));
    items.extend(removed.map(|name| {
        let delete = [("$patch".to_owned(), "delete".into()), (key.to_owned(), name.clone())];
        Value::Object(Map::from_iter(delete))
    }));
    items
}

/// The items reduced to their keys, which gives their order.
fn keys(key: &str, items: &[Value]) -> Vec<Value> {
    let name = |item: &Value| Value::Object(Map::from_iter([(key.to_owned(), item[key].clone())]));
    items.iter().map(name).collect()
}
