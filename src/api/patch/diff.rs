//! The difference, made as client-go's two-way merge makes it. Pure.
//!
//! A list whose items have a merge key is patched item by item, so that what others wrote into it meanwhile survives (a
//! node's conditions have several writers); any other list is replaced as a whole. Which list is which, the API's types tell
//! (`strategies`, generated). Rules:
//! <https://github.com/kubernetes/community/blob/main/contributors/devel/sig-api-machinery/strategic-merge-patch.md>

use std::collections::HashSet;

use serde_json::{Map, Value};

use super::strategies::FIELDS;

/// What is patched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A Node.
    Node,
    /// What is in the `status` of a Pod.
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

/// How a field is patched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Strategy {
    /// A value, or a list, as a whole; an object field by field, with nothing in it that needs more.
    Plain,
    /// Field by field, as fields of this type.
    Object(&'static str),
    /// A list of scalars of which each is there once.
    Set,
    /// A list, item by item.
    Keyed { key: &'static str, item: &'static str },
}

impl Strategy {
    /// That of a field of a type.
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

/// The patch that makes `new` of `old`, two objects of this kind or the same part of two; `None` if they are equal.
pub fn strategic(kind: Kind, old: &Value, new: &Value) -> Option<Value> {
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
            // The API leaves empty lists out.
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
    // Null takes a field away.
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
            let (added, gone) = (missing(before, now), missing(now, before));
            if !added.is_empty() {
                patch.insert(field.to_owned(), Value::Array(added));
            }
            if !gone.is_empty() {
                patch.insert(format!("$deleteFromPrimitiveList/{field}"), Value::Array(gone));
            }
            patch.insert(order, Value::Array(now.to_vec()));
        }
        Strategy::Keyed { key, .. } if is_whole(field, key, before, now) => {
            let mut items = now.to_vec();
            items.push(Value::Object(Map::from_iter([("$patch".to_owned(), "replace".into())])));
            // In their own order: an API server refuses to be told an order beside the directive.
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

/// Whether a list is sent whole and told to replace the other, though it has a merge key: where that does not tell items
/// apart. Of a node's addresses two may be of one type, also on the server alone, so they always are, as the stock kubelet's.
fn is_whole(field: &str, key: &str, before: &[Value], now: &[Value]) -> bool {
    let is_ambiguous = |items: &[Value]| {
        let mut seen = HashSet::new();
        items.iter().any(|item| item[key].is_null() || !seen.insert(&item[key]))
    };
    field == "addresses" || is_ambiguous(before) || is_ambiguous(now)
}

/// What changes item by item.
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
    let gone = before.iter().map(|item| &item[key]).filter(|name| now.iter().all(|item| item[key] != **name));
    items.extend(gone.map(|name| {
        let delete = [("$patch".to_owned(), "delete".into()), (key.to_owned(), name.clone())];
        Value::Object(Map::from_iter(delete))
    }));
    items
}

/// The items with nothing but their keys, which tells their order.
fn keys(key: &str, items: &[Value]) -> Vec<Value> {
    let name = |item: &Value| Value::Object(Map::from_iter([(key.to_owned(), item[key].clone())]));
    items.iter().map(name).collect()
}
