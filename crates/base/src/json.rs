//! JSON decoding through [`Value`].
//!
//! serde instantiates a type's decoder for each input format and its encoder for each output format. The code for a Pod with all
//! its types is large: its instances were a quarter of the program. So types with Kubernetes types are decoded only by
//! [`from_value`], and encoded only by `serde_json::to_vec`.
//!
//! The decoder can report every unknown field (the Kubernetes types skip unknown fields, but pass their field names to the
//! decoder), and the path of a value with the wrong type. Quantities may be bare numbers (`cpu: 1`), as for the API server.

use std::fmt;

use serde::de::value::{MapAccessDeserializer, StrDeserializer};
use serde::de::{
    self, DeserializeOwned, DeserializeSeed, Deserializer, Expected, IntoDeserializer, Unexpected, Visitor,
};
use serde::{Serialize, forward_to_deserialize_any};
use serde_json::{Map, Value};

/// A value of the wrong type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mismatch {
    /// The path: `spec.containers[0].image`; empty for the document itself.
    pub path: String,
    /// What was expected and what is there, as people read it.
    pub message: String,
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let colon = if self.path.is_empty() { "" } else { ": " };
        write!(f, "{}{colon}{}", self.path, self.message)
    }
}

impl std::error::Error for Mismatch {}

#[derive(Debug)]
pub(crate) struct Unknown<'u> {
    pub(crate) path: String,
    pub(crate) name: &'u str,
    /// The known fields.
    pub(crate) known: &'u [&'u str],
}

/// Decodes `value`, ignoring unknown fields.
pub fn from_value<T: DeserializeOwned>(value: &Value) -> Result<T, Mismatch> {
    T::deserialize(Node { value, path: &Path::Root, unknown: None, bare_number: false })
        .map_err(Flaw::into_mismatch)
}

/// Decodes `value`, reporting each unknown field.
pub(crate) fn from_value_reporting<T: DeserializeOwned>(
    value: &Value,
    unknown: &dyn Fn(Unknown<'_>),
) -> Result<T, Mismatch> {
    let node = Node { value, path: &Path::Root, unknown: Some(unknown), bare_number: false };
    T::deserialize(node).map_err(Flaw::into_mismatch)
}

/// Decodes JSON text, ignoring unknown fields.
pub fn from_slice<T: DeserializeOwned>(text: &[u8]) -> serde_json::Result<T> {
    let value: Value = serde_json::from_slice(text)?;
    from_value(&value).map_err(de::Error::custom)
}

/// Encodes `object`.
pub fn to_value<T: Serialize>(object: &T) -> serde_json::Result<Value> {
    serde_json::from_slice(&serde_json::to_vec(object)?)
}

/// The path from the document to a value, as a linked list on the stack.
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

/// A mismatch whose path the callers add. Boxed, because nearly every function of a decoder returns it.
#[derive(Debug)]
struct Flaw(Box<(Option<String>, String)>);

impl Flaw {
    fn into_mismatch(self) -> Mismatch {
        let (path, message) = *self.0;
        Mismatch { path: path.unwrap_or_default(), message }
    }

    fn at(mut self, path: &Path<'_>) -> Self {
        self.0.0.get_or_insert_with(|| path.to_string());
        self
    }
}

impl fmt::Display for Flaw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.1)
    }
}

impl std::error::Error for Flaw {}

impl de::Error for Flaw {
    fn custom<T: fmt::Display>(message: T) -> Self {
        Self(Box::new((None, message.to_string())))
    }
}

/// The callback for unknown fields.
type OnUnknown<'p> = Option<&'p dyn Fn(Unknown<'_>)>;

/// A value with its path.
///
/// Each method is short and does not use `deserialize_any`, which would instantiate all of them for every type.
#[derive(Clone, Copy)]
struct Node<'de, 'p> {
    value: &'de Value,
    path: &'p Path<'p>,
    unknown: OnUnknown<'p>,
    /// Whether a number is accepted as text.
    bare_number: bool,
}

impl<'de, 'p> Node<'de, 'p> {
    fn mismatch(self, expected: &dyn Expected) -> Flaw {
        de::Error::invalid_type(unexpected(self.value), expected)
    }

    /// In YAML, unquoted `yes`, `on`, `1.10` and similar are not text.
    fn not_text(self, expected: &dyn Expected) -> Flaw {
        if expected.to_string() == "a string" {
            return de::Error::custom(format_args!("{} is not text; put it in quotes", self.value));
        }
        self.mismatch(expected)
    }

    fn text<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Flaw> {
        match self.value {
            Value::String(text) => visitor.visit_borrowed_str(text),
            Value::Number(number) if self.bare_number => visitor.visit_string(number.to_string()),
            Value::Bool(_) | Value::Number(_) => Err(self.not_text(&visitor)),
            Value::Null | Value::Array(_) | Value::Object(_) => Err(self.mismatch(&visitor)),
        }
    }

    fn number<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Flaw> {
        let Value::Number(number) = self.value else { return Err(self.mismatch(&visitor)) };
        match (number.as_i64(), number.as_u64(), number.as_f64()) {
            (Some(value), _, _) => visitor.visit_i64(value),
            (None, Some(value), _) => visitor.visit_u64(value),
            (None, None, Some(value)) => visitor.visit_f64(value),
            (None, None, None) => Err(self.mismatch(&visitor)),
        }
    }

    fn items(self, items: &'de [Value]) -> Items<'de, 'p> {
        Items { items: items.iter().enumerate(), node: self }
    }

    fn fields(self, object: &'de Map<String, Value>) -> Fields<'de, 'p> {
        Fields { fields: object.iter(), entry: None, node: self }
    }

    fn report_unknown(self, known: &[&str]) {
        let (Some(report), Value::Object(object)) = (self.unknown, self.value) else { return };
        for name in object.keys().filter(|name| !known.contains(&name.as_str())) {
            let path = Path::Field(self.path, name).to_string();
            report(Unknown { path, name, known });
        }
    }
}

impl<'de> Deserializer<'de> for Node<'de, '_> {
    type Error = Flaw;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Flaw> {
        match self.value {
            Value::Null => visitor.visit_unit(),
            Value::Bool(value) => visitor.visit_bool(*value),
            Value::Number(_) => self.number(visitor),
            Value::String(text) => visitor.visit_borrowed_str(text),
            Value::Array(items) => visitor.visit_seq(self.items(items)),
            Value::Object(object) => visitor.visit_map(self.fields(object)),
        }
    }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Flaw> {
        match self.value {
            Value::Bool(value) => visitor.visit_bool(*value),
            _ => Err(self.mismatch(&visitor)),
        }
    }

    fn deserialize_i32<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Flaw> {
        self.number(visitor)
    }

    fn deserialize_i64<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Flaw> {
        self.number(visitor)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Flaw> {
        match self.value {
            Value::Null => visitor.visit_none(),
            _ => visitor.visit_some(self),
        }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        visitor: V,
    ) -> Result<V::Value, Flaw> {
        visitor.visit_newtype_struct(Node { bare_number: name == "Quantity", ..self })
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Flaw> {
        self.report_unknown(fields);
        self.deserialize_map(visitor)
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Flaw> {
        match self.value {
            Value::Object(object) => visitor.visit_map(self.fields(object)),
            // The type's own message would be its Rust name.
            _ => Err(self.mismatch(&"an object")),
        }
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Flaw> {
        match self.value {
            Value::Array(items) => visitor.visit_seq(self.items(items)),
            _ => Err(self.mismatch(&visitor)),
        }
    }

    fn deserialize_str<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Flaw> {
        self.text(visitor)
    }

    fn deserialize_string<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Flaw> {
        self.text(visitor)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Flaw> {
        match self.value {
            Value::String(variant) => visitor.visit_enum(variant.as_str().into_deserializer()),
            Value::Object(object) => {
                MapAccessDeserializer::new(self.fields(object)).deserialize_enum(name, variants, visitor)
            }
            _ => Err(self.mismatch(&visitor)),
        }
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Flaw> {
        visitor.visit_unit()
    }

    forward_to_deserialize_any! {
        i8 i16 i128 u8 u16 u32 u64 u128 f32 f64 char bytes byte_buf unit unit_struct tuple tuple_struct
        identifier
    }
}

fn unexpected(value: &Value) -> Unexpected<'_> {
    match value {
        Value::Null => Unexpected::Unit,
        Value::Bool(value) => Unexpected::Bool(*value),
        Value::Number(number) => match (number.as_i64(), number.as_u64(), number.as_f64()) {
            (Some(value), _, _) => Unexpected::Signed(value),
            (None, Some(value), _) => Unexpected::Unsigned(value),
            (None, None, Some(value)) => Unexpected::Float(value),
            (None, None, None) => Unexpected::Other("number"),
        },
        Value::String(text) => Unexpected::Str(text),
        Value::Array(_) => Unexpected::Seq,
        Value::Object(_) => Unexpected::Map,
    }
}

struct Items<'de, 'p> {
    items: std::iter::Enumerate<std::slice::Iter<'de, Value>>,
    node: Node<'de, 'p>,
}

impl<'de> de::SeqAccess<'de> for Items<'de, '_> {
    type Error = Flaw;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, Flaw> {
        let Some((index, value)) = self.items.next() else { return Ok(None) };
        let path = Path::Item(self.node.path, index);
        let node = Node { value, path: &path, unknown: self.node.unknown, bare_number: false };
        seed.deserialize(node).map(Some).map_err(|error| error.at(&path))
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.items.len())
    }
}

struct Fields<'de, 'p> {
    fields: serde_json::map::Iter<'de>,
    entry: Option<(&'de String, &'de Value)>,
    node: Node<'de, 'p>,
}

impl<'de> de::MapAccess<'de> for Fields<'de, '_> {
    type Error = Flaw;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Flaw> {
        self.entry = self.fields.next();
        let Some((name, _)) = self.entry else { return Ok(None) };
        seed.deserialize(StrDeserializer::new(name)).map(Some)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Flaw> {
        let Some((name, value)) = self.entry.take() else {
            return Err(de::Error::custom("a value was requested before its key"));
        };
        let path = Path::Field(self.node.path, name);
        let node = Node { value, path: &path, unknown: self.node.unknown, bare_number: false };
        seed.deserialize(node).map_err(|error| error.at(&path))
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::{Pod, Secret};
    use proptest::prelude::*;
    use serde::{Deserialize, Serialize};
    use serde_json::json;

    use super::*;

    /// serde on our own types.
    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
    enum Sample {
        Nothing,
        Number(u64),
        Pair(i8, bool),
        Whole { name: String, at: Option<f64>, next: Box<Sample> },
    }

    fn sample() -> impl Strategy<Value = Sample> {
        let leaf = prop_oneof![
            Just(Sample::Nothing),
            any::<u64>().prop_map(Sample::Number),
            any::<(i8, bool)>().prop_map(|(number, flag)| Sample::Pair(number, flag)),
        ];
        leaf.prop_recursive(3, 8, 1, |next| {
            let at = proptest::option::of((-1000..1000i32).prop_map(|at| f64::from(at) / 8.0));
            (".*", at, next).prop_map(|(name, at, next)| Sample::Whole { name, at, next: Box::new(next) })
        })
    }

    proptest! {
        #[test]
        fn what_was_encoded_is_decoded(samples in proptest::collection::vec(sample(), 0..4)) {
            let text = serde_json::to_vec(&samples).unwrap();
            prop_assert_eq!(&from_slice::<Vec<Sample>>(&text).unwrap(), &samples);
            prop_assert_eq!(from_value::<Vec<Sample>>(&to_value(&samples).unwrap()).unwrap(), samples);
        }
    }

    #[test]
    fn api_objects_are_decoded_like_by_serde() {
        let pod = json!({"apiVersion": "v1", "kind": "Pod", "unknown": [1], "metadata": {"name": "p",
            "creationTimestamp": "2026-11-21T07:00:00Z", "managedFields": [{"fieldsV1": {"f:a": {"f:b": null}}}]},
            "spec": {"containers": [{"name": "c", "resources": {"limits": {"cpu": "1"}},
                "livenessProbe": {"httpGet": {"port": "http"}, "tcpSocket": {"port": 80}}}]}});
        assert_eq!(from_value::<Pod>(&pod).unwrap(), serde_json::from_value(pod).unwrap());
        let secret = json!({"data": {"a": "aGk=", "b": ""}, "immutable": null});
        assert_eq!(from_value::<Secret>(&secret).unwrap(), serde_json::from_value(secret).unwrap());
    }

    #[test]
    fn a_mismatch_says_where_it_is_and_what_was_expected() {
        for (value, message) in [
            (json!([{"Whole": {"name": 5}}]), "[0].Whole.name: 5 is not text; put it in quotes"),
            (json!([{"Pair": [1, "x"]}]), "[0].Pair[1]: invalid type: string \"x\", expected a boolean"),
            (json!(["Else"]), "[0]: unknown variant `Else`, expected one of"),
            (json!("x"), "invalid type: string \"x\", expected a sequence"),
        ] {
            let error = from_value::<Vec<Sample>>(&value).unwrap_err().to_string();
            assert!(error.starts_with(message), "{error}");
        }
    }
}
