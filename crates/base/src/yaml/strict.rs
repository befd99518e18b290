//! Strict decoding: JSON values to typed structs, reporting every unknown field and every wrong value with its path. Does
//! not know where the value came from. (The Kubernetes types themselves skip unknown fields.)

use std::borrow::Cow;
use std::cell::RefCell;

use serde::de::DeserializeOwned;
use serde_json::Value;

use super::spelling::nearest;
use crate::json;

/// Maximum number of reported wrong values. Decoding starts over after each one, so a document full of them would otherwise
/// take very long.
const MAX_WRONG: usize = 100;

/// Maximum number of unknown fields with a suggestion: a document may consist of nothing but unknown fields.
const MAX_SUGGESTIONS: usize = 100;

/// A field of a document that does not match the type it is decoded as.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Flaw {
    /// The field: `spec.containers[0].image`; empty for the document itself.
    pub path: String,
    /// What is wrong with it.
    pub problem: Problem,
}

/// What is wrong with a field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Problem {
    /// The type has no such field.
    Unknown {
        /// Its field with the most similar name, if any is similar.
        nearest: Option<String>,
    },
    /// The value has the wrong type or format.
    Wrong {
        /// What was expected.
        message: String,
    },
}

/// Decodes `value` as a `T`, skipping unknown fields. Returns no `T` if any value is wrong.
pub fn decode<T: DeserializeOwned>(value: &Value) -> (Option<T>, Vec<Flaw>) {
    let mut rest = Cow::Borrowed(value);
    let mut flaws = Vec::new();
    loop {
        let unknown = RefCell::new(Vec::new());
        let decoded = json::from_value_reporting(&rest, &|field| {
            let mut unknown = unknown.borrow_mut();
            let known = field.known.iter().copied();
            let nearest = if unknown.len() < MAX_SUGGESTIONS { nearest(field.name, known) } else { None };
            let problem = Problem::Unknown { nearest: nearest.map(str::to_owned) };
            unknown.push(Flaw { path: field.path, problem });
        });
        let is_last = match decoded {
            Ok(decoded) => {
                let value = flaws.is_empty().then_some(decoded);
                flaws.append(&mut unknown.into_inner());
                return (value, flaws);
            }
            Err(json::Mismatch { path, message }) => {
                // Decoding ends at the first wrong value. Without it, the next one is found.
                let is_removed = remove(rest.to_mut(), &path);
                flaws.push(Flaw { path, problem: Problem::Wrong { message: plain(&message) } });
                !is_removed || flaws.len() >= MAX_WRONG
            }
        };
        if is_last {
            flaws.append(&mut unknown.into_inner());
            return (None, flaws);
        }
    }
}

/// Removes the field at `path`, or the list that `path` leads into; false if there is none. Names may contain dots.
fn remove(value: &mut Value, path: &str) -> bool {
    let Value::Object(object) = value else { return false };
    let is_list = |name: &str| path.strip_prefix(name).is_some_and(|rest| rest.starts_with('['));
    let found = object.keys().find(|name| *name == path || is_list(name)).cloned();
    match found {
        Some(name) => object.remove(&name).is_some(),
        None => object.iter_mut().any(|(name, value)| {
            let rest = path.strip_prefix(name.as_str()).and_then(|rest| rest.strip_prefix('.'));
            rest.is_some_and(|rest| remove(value, rest))
        }),
    }
}

/// Rewords a message of the decoder for the author of the file.
fn plain(message: &str) -> String {
    let Some((found, expected)) = message.split_once(", expected ") else { return message.to_owned() };
    let found = found.trim_start_matches("invalid type: ").trim_start_matches("invalid value: ");
    let found = match found {
        "sequence" => "a list",
        "map" => "an object",
        other => other,
    };
    let expected = match expected {
        "i32" => "a 32-bit integer",
        "i64" => "a 64-bit integer",
        "u32" => "a non-negative integer",
        "a nonzero usize" => "an integer above 0",
        "f64" => "a number",
        "a sequence" => "a list",
        "a map" => "an object",
        other => other,
    };
    if found.starts_with("unknown variant") {
        return format!("{}, expected {expected}", found.replacen("unknown variant ", "unknown value ", 1));
    }
    format!("found {found}, expected {expected}")
}

#[cfg(test)]
#[path = "strict_tests.rs"]
mod tests;
