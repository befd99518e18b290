//! A deserializer over JSON values that takes nothing silently: it reports every field the target type does not have,
//! with the nearest one it does have, and says at which path a value has the wrong type.
//!
//! The Kubernetes types skip what they do not know; they do name their fields when they ask for a struct, which is what
//! this checks against. Quantities may be written as bare numbers (`cpu: 1`), as the API server takes them.

use std::cell::RefCell;
use std::fmt;

use serde::de::value::StrDeserializer;
use serde::de::{self, DeserializeSeed, Deserializer, Unexpected, Visitor};
use serde::forward_to_deserialize_any;
use serde_json::{Map, Value};

use crate::config::nearest;

/// For how many unknown fields the nearest known one is looked for: a document may be made of nothing else.
const SUGGESTIONS: usize = 100;

/// One thing in a document that does not fit the type it is read as.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Flaw {
    /// The field: `spec.containers[0].image`; empty for the document itself.
    pub(super) path: String,
    /// What is wrong with it.
    pub(super) message: String,
}

/// Reads `value` as a `T`, leaving unknown fields out. Every one of them is reported; of values with a wrong type only
/// the first, since reading ends there, without a `T`.
pub(super) fn decode<T: de::DeserializeOwned>(value: &Value) -> (Option<T>, Vec<Flaw>) {
    let flaws = RefCell::new(Vec::new());
    let read = T::deserialize(Node { value, path: &Path::Root, flaws: &flaws, bare_number: false });
    let mut flaws = flaws.into_inner();
    match read {
        Ok(read) => (Some(read), flaws),
        Err(error) => {
            flaws.push(Flaw { path: error.path.unwrap_or_default(), message: error.message });
            (None, flaws)
        }
    }
}

/// The way from the document to a value, as links on the stack.
enum Path<'p> {
    Root,
    Field(&'p Path<'p>, &'p str),
    Item(&'p Path<'p>, usize),
}

impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Root => Ok(()),
            Self::Field(Self::Root, name) => f.write_str(name),
            Self::Field(parent, name) => write!(f, "{parent}.{name}"),
            Self::Item(parent, index) => write!(f, "{parent}[{index}]"),
        }
    }
}

/// A value of the wrong type. The path is filled in where the error passes the place it came from.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
struct Mismatch {
    path: Option<String>,
    message: String,
}

impl Mismatch {
    fn at(self, path: &Path<'_>) -> Self {
        Self { path: Some(self.path.unwrap_or_else(|| path.to_string())), message: self.message }
    }
}

impl de::Error for Mismatch {
    fn custom<T: fmt::Display>(message: T) -> Self {
        Self { path: None, message: message.to_string() }
    }
}

struct Node<'de, 'p> {
    value: &'de Value,
    path: &'p Path<'p>,
    flaws: &'p RefCell<Vec<Flaw>>,
    /// Whether a number may stand where text is asked for.
    bare_number: bool,
}

impl<'de> Node<'de, '_> {
    fn text<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Mismatch> {
        match self.value {
            Value::Number(number) if self.bare_number => visitor.visit_string(number.to_string()),
            // In YAML `yes`, `on`, `1.10` and their like are no text unless they are quoted.
            Value::Bool(_) | Value::Number(_) => {
                let message = format!("{} is not text; put it in quotes", self.value);
                Err(de::Error::custom(message))
            }
            Value::Null | Value::String(_) | Value::Array(_) | Value::Object(_) => {
                self.deserialize_any(visitor)
            }
        }
    }

    fn report_unknown(&self, object: &Map<String, Value>, known: &[&str]) {
        for name in object.keys().filter(|name| !known.contains(&name.as_str())) {
            let told = self.flaws.borrow().len();
            let nearest = if told < SUGGESTIONS { nearest(name, known.iter().copied()) } else { None };
            let message = match nearest {
                Some(nearest) => format!("unknown field, did you mean {nearest:?}?"),
                None => "unknown field".to_owned(),
            };
            let path = Path::Field(self.path, name).to_string();
            self.flaws.borrow_mut().push(Flaw { path, message });
        }
    }
}

impl<'de> Deserializer<'de> for Node<'de, '_> {
    type Error = Mismatch;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Mismatch> {
        match self.value {
            Value::Null => visitor.visit_unit(),
            Value::Bool(value) => visitor.visit_bool(*value),
            Value::Number(number) => match (number.as_i64(), number.as_u64(), number.as_f64()) {
                (Some(value), _, _) => visitor.visit_i64(value),
                (None, Some(value), _) => visitor.visit_u64(value),
                (None, None, Some(value)) => visitor.visit_f64(value),
                (None, None, None) => Err(de::Error::invalid_type(Unexpected::Other("number"), &visitor)),
            },
            Value::String(text) => visitor.visit_borrowed_str(text),
            Value::Array(items) => visitor.visit_seq(Items {
                items: items.iter().enumerate(),
                path: self.path,
                flaws: self.flaws,
            }),
            Value::Object(object) => visitor.visit_map(Fields {
                fields: object.iter(),
                entry: None,
                path: self.path,
                flaws: self.flaws,
            }),
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Mismatch> {
        match self.value {
            Value::Null => visitor.visit_none(),
            _ => visitor.visit_some(self),
        }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        visitor: V,
    ) -> Result<V::Value, Mismatch> {
        visitor.visit_newtype_struct(Node { bare_number: name == "Quantity", ..self })
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Mismatch> {
        if let Value::Object(object) = self.value {
            self.report_unknown(object, fields);
        }
        self.deserialize_map(visitor)
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Mismatch> {
        match self.value {
            Value::Object(_) => self.deserialize_any(visitor),
            // The type's own words would be its Rust name.
            other => Err(de::Error::invalid_type(unexpected(other), &"an object")),
        }
    }

    fn deserialize_str<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Mismatch> {
        self.text(visitor)
    }

    fn deserialize_string<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Mismatch> {
        self.text(visitor)
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Mismatch> {
        visitor.visit_unit()
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char bytes byte_buf unit unit_struct seq tuple
        tuple_struct enum identifier
    }
}

fn unexpected(value: &Value) -> Unexpected<'_> {
    match value {
        Value::Null => Unexpected::Unit,
        Value::Bool(value) => Unexpected::Bool(*value),
        Value::Number(_) => Unexpected::Other("number"),
        Value::String(text) => Unexpected::Str(text),
        Value::Array(_) => Unexpected::Seq,
        Value::Object(_) => Unexpected::Map,
    }
}

struct Items<'de, 'p> {
    items: std::iter::Enumerate<std::slice::Iter<'de, Value>>,
    path: &'p Path<'p>,
    flaws: &'p RefCell<Vec<Flaw>>,
}

impl<'de> de::SeqAccess<'de> for Items<'de, '_> {
    type Error = Mismatch;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, Mismatch> {
        let Some((index, value)) = self.items.next() else { return Ok(None) };
        let path = Path::Item(self.path, index);
        let node = Node { value, path: &path, flaws: self.flaws, bare_number: false };
        seed.deserialize(node).map(Some).map_err(|error| error.at(&path))
    }
}

struct Fields<'de, 'p> {
    fields: serde_json::map::Iter<'de>,
    entry: Option<(&'de String, &'de Value)>,
    path: &'p Path<'p>,
    flaws: &'p RefCell<Vec<Flaw>>,
}

impl<'de> de::MapAccess<'de> for Fields<'de, '_> {
    type Error = Mismatch;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Mismatch> {
        self.entry = self.fields.next();
        let Some((name, _)) = self.entry else { return Ok(None) };
        seed.deserialize(StrDeserializer::new(name)).map(Some)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Mismatch> {
        let Some((name, value)) = self.entry.take() else {
            return Err(de::Error::custom("a value was asked for before its key"));
        };
        let path = Path::Field(self.path, name);
        let node = Node { value, path: &path, flaws: self.flaws, bare_number: false };
        seed.deserialize(node).map_err(|error| error.at(&path))
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Pod;
    use serde_json::json;

    use super::{Flaw, decode};

    fn flaws(value: serde_json::Value) -> Vec<(String, String)> {
        let flaws: Vec<Flaw> = decode::<Pod>(&value).1;
        flaws.into_iter().map(|flaw| (flaw.path, flaw.message)).collect()
    }

    fn flaw(path: &str, message: &str) -> (String, String) {
        (path.to_owned(), message.to_owned())
    }

    #[test]
    fn every_unknown_field_is_reported_with_its_nearest_name() {
        let pod = json!({"apiVersion": "v1", "kind": "Pod", "metdata": {}, "spec": {
            "hostnetwork": true, "zzz": 1,
            "containers": [{"name": "a", "images": "x"}, {"name": "b", "ports": [{"containerport": 1}]}]}});
        let mut found = flaws(pod);
        found.sort();
        assert_eq!(
            found,
            vec![
                flaw("metdata", "unknown field, did you mean \"metadata\"?"),
                flaw("spec.containers[0].images", "unknown field, did you mean \"image\"?"),
                flaw(
                    "spec.containers[1].ports[0].containerport",
                    "unknown field, did you mean \"containerPort\"?"
                ),
                flaw("spec.hostnetwork", "unknown field, did you mean \"hostNetwork\"?"),
                flaw("spec.zzz", "unknown field"),
            ]
        );
    }

    #[test]
    fn a_wrong_type_is_named_where_it_stands() {
        let pod = |spec| json!({"apiVersion": "v1", "kind": "Pod", "spec": spec});
        for (spec, path, message) in [
            (json!([]), "spec", "invalid type: sequence, expected an object"),
            (json!({"containers": {}}), "spec.containers", "invalid type: map, expected a sequence"),
            (
                json!({"containers": [{"ports": [{"containerPort": "80"}]}]}),
                "spec.containers[0].ports[0].containerPort",
                "invalid type: string \"80\", expected i32",
            ),
            (
                json!({"containers": [{"env": [{"name": "A", "value": 1}]}]}),
                "spec.containers[0].env[0].value",
                "1 is not text; put it in quotes",
            ),
        ] {
            assert_eq!(flaws(pod(spec)), vec![flaw(path, message)]);
        }
    }

    #[test]
    fn quantities_may_be_bare_numbers_and_nulls_mean_unset() {
        let pod: Pod = decode(&json!({"apiVersion": "v1", "kind": "Pod", "metadata": null, "spec": {
            "hostNetwork": null, "containers": [{"name": "a", "resources": {
                "limits": {"cpu": 1, "memory": "1Gi"}, "requests": {"cpu": 0.5}}}]}}))
        .0
        .unwrap();
        let spec = pod.spec.unwrap();
        let resources = spec.containers[0].resources.clone().unwrap();
        assert_eq!(resources.limits.unwrap()["cpu"].0, "1");
        assert_eq!(resources.requests.unwrap()["cpu"].0, "0.5");
        assert_eq!(spec.host_network, None);
    }

    #[test]
    fn integers_out_of_range_are_refused() {
        let pod = json!({"apiVersion": "v1", "kind": "Pod",
            "spec": {"containers": [{"ports": [{"containerPort": 4_294_967_296_u64}]}]}});
        assert_eq!(flaws(pod)[0].0, "spec.containers[0].ports[0].containerPort");
    }
}
