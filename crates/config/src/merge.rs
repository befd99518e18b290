//! JSON Merge Patch (RFC 7396), which upstream uses for drop-ins: objects are merged, other values replaced, and null removes
//! a field. Knows no schema.

use serde_json::{Map, Value};

/// Applies `patch` to `base`.
pub(super) fn merge(base: &mut Value, patch: Value) {
    let Value::Object(patch) = patch else {
        *base = patch;
        return;
    };
    if !base.is_object() {
        *base = Value::Object(Map::new());
    }
    if let Value::Object(base) = base {
        for (name, value) in patch {
            if value.is_null() {
                base.remove(&name);
            } else {
                merge(base.entry(name).or_insert(Value::Null), value);
            }
        }
    }
}

/// Removes null fields from objects at any depth: null means unset.
pub(super) fn without_nulls(value: Value) -> Value {
    match value {
        Value::Object(fields) => fields
            .into_iter()
            .filter(|(_, value)| !value.is_null())
            .map(|(name, value)| (name, without_nulls(value)))
            .collect(),
        Value::Array(items) => items.into_iter().map(without_nulls).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value,
    }
}

/// The field at a path like `a.b`, whose names contain no dots.
pub(super) fn field<'v>(value: &'v Value, path: &str) -> Option<&'v Value> {
    path.split('.').try_fold(value, |value, name| value.get(name))
}

/// An object with only `value` at a path like `a.b`.
pub(super) fn nested(path: &str, value: Value) -> Value {
    path.rsplit('.').fold(value, |value, name| Value::Object(Map::from_iter([(name.to_owned(), value)])))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Map, Value, json};

    use super::{field, merge, nested, without_nulls};

    fn merged(layers: &[Value]) -> Value {
        let mut base = Value::Object(Map::new());
        for layer in layers {
            merge(&mut base, layer.clone());
        }
        base
    }

    #[test]
    fn objects_merge_and_lists_are_replaced() {
        let base = json!({"a": {"x": 1, "y": 2}, "list": [1, 2], "gone": 1, "kept": true});
        let patch = json!({"a": {"y": 3, "z": {"deep": null, "set": 1}}, "list": [3], "gone": null});
        assert_eq!(
            merged(&[base, patch]),
            json!({"a": {"x": 1, "y": 3, "z": {"set": 1}}, "list": [3], "kept": true})
        );
    }

    #[test]
    fn paths_lead_to_fields() {
        let value = nested("a.b.c", json!([1]));
        assert_eq!(value, json!({"a": {"b": {"c": [1]}}}));
        assert_eq!(field(&value, "a.b.c"), Some(&json!([1])));
        assert_eq!(field(&value, "a.x.c"), None);
        assert_eq!(without_nulls(json!({"a": null, "b": [{"c": null}]})), json!({"b": [{}]}));
    }

    /// A document as strict decoding lets it through: each name has one type wherever it stands.
    fn document() -> impl Strategy<Value = Value> {
        fn object(depth: u32) -> BoxedStrategy<Value> {
            let text = proptest::option::of("[a-z]{1,3}".prop_map(Value::from));
            let list = proptest::option::of(proptest::collection::vec(0..9_i32, 0..3).prop_map(Value::from));
            let map =
                proptest::option::of(proptest::collection::btree_map("[k-m]", any::<bool>(), 0..3).prop_map(
                    |map| Value::Object(map.into_iter().map(|(key, on)| (key, on.into())).collect()),
                ));
            let inner =
                if depth == 0 { Just(None).boxed() } else { proptest::option::of(object(depth - 1)).boxed() };
            (text, list, map, inner)
                .prop_map(|(text, list, map, inner)| {
                    let fields = [("text", text), ("list", list), ("map", map), ("inner", inner)];
                    fields.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect()
                })
                .boxed()
        }
        object(3)
    }

    fn leaves(value: &Value, path: &str, found: &mut Vec<(String, Value)>) {
        match value {
            Value::Object(fields) if !fields.is_empty() => {
                for (name, value) in fields {
                    leaves(value, &format!("{path}{name}."), found);
                }
            }
            other => found.push((path.trim_end_matches('.').to_owned(), other.clone())),
        }
    }

    proptest! {
        #[test]
        fn merging_twice_changes_nothing(a in document(), b in document()) {
            prop_assert_eq!(merged(&[a.clone(), b.clone(), b.clone()]), merged(&[a, b]));
        }

        #[test]
        fn grouping_does_not_matter(a in document(), b in document(), c in document()) {
            let left = merged(&[merged(&[a.clone(), b.clone()]), c.clone()]);
            let right = merged(&[a, merged(&[b, c])]);
            prop_assert_eq!(left, right);
        }

        #[test]
        fn the_patch_wins_and_other_fields_stay(a in document(), b in document()) {
            let result = merged(&[a.clone(), b.clone()]);
            let (mut first, mut last) = (Vec::new(), Vec::new());
            leaves(&a, "", &mut first);
            leaves(&b, "", &mut last);
            for (path, value) in &last {
                // An empty object says nothing about the fields it could have.
                if !path.is_empty() && value != &json!({}) {
                    prop_assert_eq!(field(&result, path), Some(value));
                }
            }
            for (path, value) in &first {
                let overruled = last.iter().any(|(other, _)| other == path || other.starts_with(&format!("{path}.")));
                if !path.is_empty() && !overruled {
                    prop_assert_eq!(field(&result, path), Some(value));
                }
            }
        }
    }
}
