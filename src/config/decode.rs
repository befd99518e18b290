//! JSON values to typed structs, strictly: every unknown field and every wrong value is found at once, with its path. Does
//! not know where the value came from.

use std::cell::RefCell;

use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::types::json;

/// Most mistakes told of one document: more than anybody mends at once. Reading starts anew after each wrong value, so a
/// document full of them would also take forever.
const MOST_FLAWS: usize = 100;

/// What does not fit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Flaw {
    /// There is no field at this path.
    Unknown(String),
    /// The value at this path is not what the field takes.
    Wrong { path: String, message: String },
}

/// Reads `value`, which holds no nulls, as a `T`.
pub(super) fn decode<T: DeserializeOwned>(value: &Value) -> Result<T, Vec<Flaw>> {
    let mut rest = value.clone();
    let mut flaws = Vec::new();
    loop {
        let unknown = RefCell::new(Vec::new());
        let read =
            json::from_value_telling(&rest, &|field| unknown.borrow_mut().push(Flaw::Unknown(field.path)));
        match read {
            Ok(read) => {
                flaws.append(&mut unknown.into_inner());
                flaws.truncate(MOST_FLAWS);
                return if flaws.is_empty() { Ok(read) } else { Err(flaws) };
            }
            Err(json::Mismatch { path, message }) => {
                // Reading ends at the first wrong value. Without it, the next one is found.
                let is_removed = remove(&mut rest, &path);
                flaws.push(Flaw::Wrong { path, message: plain(&message) });
                if !is_removed || flaws.len() >= MOST_FLAWS {
                    return Err(flaws);
                }
            }
        }
    }
}

/// Removes the field the path leads to, or the list it leads into; false if there is none. Names may have dots in them.
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

/// A message of the decoder in the words of the file's author.
fn plain(message: &str) -> String {
    let Some((found, expected)) = message.split_once(", expected ") else { return message.to_owned() };
    let found = found.trim_start_matches("invalid type: ").trim_start_matches("invalid value: ");
    let found = match found {
        "sequence" => "a list",
        "map" => "an object",
        other => other,
    };
    let expected = match expected {
        "i32" => "an integer of 32 bits",
        "i64" => "an integer of 64 bits",
        "u32" => "an integer that is not negative",
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
mod tests {
    use serde_json::{Value, json};

    use super::{Flaw, decode};
    use crate::config::wire::KubeletConfiguration;

    fn flaws(value: Value) -> Vec<(String, String)> {
        let mut flaws: Vec<(String, String)> = decode::<KubeletConfiguration>(&value)
            .unwrap_err()
            .into_iter()
            .map(|flaw| match flaw {
                Flaw::Unknown(path) => (path, "unknown".to_owned()),
                Flaw::Wrong { path, message } => (path, message),
            })
            .collect();
        flaws.sort();
        flaws
    }

    #[test]
    fn everything_wrong_is_found_at_once() {
        let found = flaws(json!({
            "port": "many",
            "maxPods": 99_999_999_999_i64,
            "failSwapOn": "no",
            "clusterDomain": true,
            "syncFrequency": "1 minute",
            "cgroupDriver": "docker",
            "clusterDNS": ["10.0.0.10", "dns"],
            "address": "here",
            "evictionHard": {"memory.available": 5},
            "authentication": {"x509": {"clientCA": "a"}, "webhook": {"enabled": 1}},
            "logging": {"vmodule": [{"file": "a"}], "verbosity": -1},
            "kubeReserved": [],
            "memorySwap": [],
            "staticPodPth": "/x",
        }));
        let expected = [
            ("address", "found IP address syntax"),
            ("authentication.webhook.enabled", "found integer `1`, expected a boolean"),
            ("authentication.x509.clientCA", "unknown"),
            ("cgroupDriver", "unknown value `docker`, expected `cgroupfs` or `systemd`"),
            ("clusterDNS[1]", ""),
            ("clusterDomain", "true is not text; put it in quotes"),
            ("evictionHard.memory.available", "5 is not text; put it in quotes"),
            ("failSwapOn", "found string \"no\", expected a boolean"),
            ("kubeReserved", "found a list, expected an object"),
            ("logging.verbosity", "found integer `-1`, expected an integer that is not negative"),
            ("logging.vmodule[0].file", "unknown"),
            ("maxPods", "found integer `99999999999`, expected an integer of 32 bits"),
            ("memorySwap", "found a list, expected an object"),
            ("port", "found string \"many\", expected an integer of 32 bits"),
            ("staticPodPth", "unknown"),
            ("syncFrequency", "\"1 minute\" is not a duration; write a number with a unit, such as \"30s\""),
        ];
        let paths: Vec<&str> = found.iter().map(|(path, _)| path.as_str()).collect();
        assert_eq!(paths, expected.map(|(path, _)| path));
        for ((path, message), (_, start)) in found.iter().zip(expected) {
            let start = if path == "address" { "invalid IP address syntax" } else { start };
            assert!(message.starts_with(start), "{path}: {message}");
        }
    }

    #[test]
    fn of_a_document_full_of_mistakes_the_first_are_told() {
        let gates: serde_json::Map<String, Value> =
            (0..100_000).map(|n| (format!("G{n}"), json!(n))).collect();
        assert_eq!(flaws(json!({"featureGates": gates})).len(), super::MOST_FLAWS);
        let unknown: serde_json::Map<String, Value> =
            (0..100_000).map(|n| (format!("u{n}"), json!(n))).collect();
        assert_eq!(flaws(Value::Object(unknown)).len(), super::MOST_FLAWS);
    }

    #[test]
    fn blank_words_and_numbers_for_quantities_are_taken() {
        let value = json!({
            "cgroupDriver": "", "address": "", "memorySwap": {"swapBehavior": ""},
            "logging": {"flushFrequency": 5_000_000_000_i64, "options": {"json": {"infoBufferSize": 0}}},
        });
        let read: KubeletConfiguration = decode(&value).unwrap();
        assert_eq!(read.cgroup_driver, None);
        assert_eq!(read.logging.flush_frequency.unwrap().to_string(), "5s");
    }

    #[test]
    fn a_list_is_no_object() {
        let value = json!({"memorySwap": ["LimitedSwap"], "registerWithTaints": [{"key": "a", "effect": "NoSchedule"}, ["a"]]});
        let message = || "found a list, expected an object".to_owned();
        assert_eq!(
            flaws(value),
            [("memorySwap".to_owned(), message()), ("registerWithTaints[1]".to_owned(), message())]
        );
    }
}
