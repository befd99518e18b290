//! Resolves YAML scalars by the rules of Kubernetes' YAML parser (sigs.k8s.io/yaml, which reads YAML 1.1), as values and as
//! names of fields. Knows no documents.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Number, Value};

use crate::go_integer;
use crate::go_text::go_float32;

/// What a scalar says.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Scalar {
    Null,
    Bool(bool),
    Integer(Number),
    Float(f64),
    Text(String),
}

/// How much larger than an integer a float may be for Go to write it with all its digits.
const MAX_WRITTEN_OUT: f64 = 1e21;

impl Scalar {
    /// Resolves an unquoted scalar without a tag.
    pub(super) fn resolve(text: &str) -> Self {
        match text {
            "" | "~" | "null" | "Null" | "NULL" => Self::Null,
            // YAML 1.1; Kubernetes still accepts these as booleans.
            "true" | "True" | "TRUE" | "y" | "Y" | "yes" | "Yes" | "YES" | "on" | "On" | "ON" => {
                Self::Bool(true)
            }
            "false" | "False" | "FALSE" | "n" | "N" | "no" | "No" | "NO" | "off" | "Off" | "OFF" => {
                Self::Bool(false)
            }
            ".inf" | ".Inf" | ".INF" | "+.inf" | "+.Inf" | "+.INF" => Self::Float(f64::INFINITY),
            "-.inf" | "-.Inf" | "-.INF" => Self::Float(f64::NEG_INFINITY),
            ".nan" | ".NaN" | ".NAN" => Self::Float(f64::NAN),
            _ => number(text).unwrap_or_else(|| Self::Text(text.to_owned())),
        }
    }

    /// Resolves a scalar whose tag names one of YAML's types, such as `int` of `!!int`; `None` if its text is not one.
    pub(super) fn resolve_as(type_name: &str, text: &str) -> Option<Self> {
        let resolved = Self::resolve(text);
        let fits = match (type_name, &resolved) {
            ("null", Self::Null)
            | ("bool", Self::Bool(_))
            | ("int" | "float", Self::Integer(_))
            | ("float", Self::Float(_)) => true,
            ("null" | "bool" | "int" | "float", _) => false,
            ("binary", _) => return binary(text).map(Self::Text),
            ("timestamp", _) if !begins_with_date(text) => false,
            // Kubernetes' parser knows no others, and keeps times as they are written.
            (_, _) => return Some(Self::Text(text.to_owned())),
        };
        fits.then_some(resolved)
    }

    /// The value in JSON; `None` for infinities and NaN, which JSON does not have.
    pub(super) fn into_value(self) -> Option<Value> {
        Some(match self {
            Self::Null => Value::Null,
            Self::Bool(value) => Value::Bool(value),
            Self::Integer(number) => Value::Number(number),
            Self::Float(number) => Value::Number(json_number(number)?),
            Self::Text(text) => Value::String(text),
        })
    }

    /// The name of the field whose key this is; `None` for a key that Kubernetes' parser rejects.
    pub(super) fn into_key(self) -> Option<String> {
        match self {
            Self::Null => None,
            Self::Bool(value) => Some(value.to_string()),
            Self::Integer(number) => number.as_i64().map(|number| number.to_string()),
            // Single precision, as in Kubernetes' parser.
            Self::Float(number) => Some(match number as f32 {
                f32::INFINITY => ".inf".to_owned(),
                f32::NEG_INFINITY => "-.inf".to_owned(),
                number if number.is_nan() => ".nan".to_owned(),
                number => go_float32(number),
            }),
            Self::Text(text) => Some(text),
        }
    }
}

/// The number as Go writes it in JSON: a whole number of moderate size has no fraction, so that it is an integer for whoever
/// reads it.
fn json_number(number: f64) -> Option<Number> {
    // Go and Rust both print the shortest digits that are read as the same number.
    let whole = || {
        let text = number.to_string();
        text.parse::<i64>().map(Number::from).or_else(|_| text.parse::<u64>().map(Number::from)).ok()
    };
    let written_out = if number.abs() < MAX_WRITTEN_OUT { whole() } else { None };
    written_out.or_else(|| Number::from_f64(number))
}

/// The text behind base64, which may have several lines. Bytes that are no text are replaced, as in Go's JSON.
fn binary(text: &str) -> Option<String> {
    let bytes = STANDARD.decode(text.replace(['\n', '\r'], "")).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

/// Whether a text has a year with four digits at its beginning, as all times in YAML.
fn begins_with_date(text: &str) -> bool {
    matches!(text.split_once('-'), Some((year, _)) if year.len() == 4 && year.bytes().all(|b| b.is_ascii_digit()))
}

fn number(text: &str) -> Option<Scalar> {
    if !text.starts_with(|c: char| c.is_ascii_digit() || matches!(c, '+' | '-' | '.')) {
        return None;
    }
    let digits = text.replace('_', "");
    integer(&digits).map(Scalar::Integer).or_else(|| float(&digits).map(Scalar::Float))
}

/// As Go's `ParseInt`, and `ParseUint` for what it does not accept.
fn integer(text: &str) -> Option<Number> {
    let integer = go_integer(text)?;
    let has_sign = text.starts_with(['+', '-']);
    match i64::try_from(integer) {
        Ok(number) => Some(Number::from(number)),
        // Larger numbers with a sign are floats.
        Err(_) if has_sign => None,
        Err(_) => u64::try_from(integer).ok().map(Number::from),
    }
}

fn float(text: &str) -> Option<f64> {
    let is_numeric =
        text.bytes().all(|b| b.is_ascii_digit() || matches!(b, b'+' | b'-' | b'.' | b'e' | b'E'));
    let number: f64 = if is_numeric { text.parse().ok()? } else { return None };
    number.is_finite().then_some(number)
}

#[cfg(test)]
#[path = "scalar_tests.rs"]
mod tests;
