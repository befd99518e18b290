//! JSON values to typed structs, strictly: every unknown field and every wrong value is found at once, with its path. Does
//! not know where the value came from.

use serde::de::DeserializeOwned;
use serde_json::Value;
use serde_path_to_error::Segment;

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

/// Reads `value`, which holds no nulls, as a `T`. `is_object` says of a field whether it takes an object of known fields.
pub(super) fn decode<T: DeserializeOwned>(
    value: &Value,
    is_object: fn(&str) -> bool,
) -> Result<T, Vec<Flaw>> {
    let mut rest = value.clone();
    let mut flaws = Vec::new();
    take_stray_lists(&mut rest, "", is_object, &mut flaws);
    loop {
        let mut unknown = Vec::new();
        let mut note = |path: serde_ignored::Path<'_>| unknown.push(Flaw::Unknown(ignored(&path)));
        let decoder = serde_ignored::Deserializer::new(&rest, &mut note);
        match serde_path_to_error::deserialize::<_, T>(decoder) {
            Ok(read) if flaws.is_empty() && unknown.is_empty() => return Ok(read),
            Ok(_) => {
                flaws.append(&mut unknown);
                flaws.truncate(MOST_FLAWS);
                return Err(flaws);
            }
            Err(error) => {
                let segments: Vec<Segment> = error.path().iter().cloned().collect();
                let (path, message) = (joined(&segments), plain(&error.inner().to_string()));
                flaws.push(Flaw::Wrong { path, message });
                // Reading ends at the first wrong value. Without it, the next one is found.
                if !remove(&mut rest, &segments) || flaws.len() >= MOST_FLAWS {
                    flaws.truncate(MOST_FLAWS);
                    return Err(flaws);
                }
            }
        }
    }
}

/// Takes out lists that stand where an object should. A derived struct would take their items for its fields, one by one.
fn take_stray_lists(value: &mut Value, path: &str, is_object: fn(&str) -> bool, flaws: &mut Vec<Flaw>) {
    match value {
        Value::Object(fields) => fields.retain(|name, value| {
            let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
            let stray = value.is_array() && is_object(&path);
            if stray {
                flaws.push(stray_list(path));
            } else {
                take_stray_lists(value, &path, is_object, flaws);
            }
            !stray
        }),
        Value::Array(items) => {
            for (index, item) in items.iter_mut().enumerate() {
                let path = format!("{path}[{index}]");
                // No field takes a list of lists.
                if item.is_array() {
                    *item = Value::Object(serde_json::Map::new());
                    flaws.push(stray_list(path));
                } else {
                    take_stray_lists(item, &path, is_object, flaws);
                }
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn stray_list(path: String) -> Flaw {
    Flaw::Wrong { path, message: "found a list, expected an object".to_owned() }
}

/// A path as `serde_ignored` has it, in the words of this module.
fn ignored(path: &serde_ignored::Path<'_>) -> String {
    use serde_ignored::Path;
    match path {
        Path::Root => String::new(),
        Path::Seq { parent, index } => format!("{}[{index}]", ignored(parent)),
        Path::Map { parent, key } => match ignored(parent) {
            parent if parent.is_empty() => key.clone(),
            parent => format!("{parent}.{key}"),
        },
        Path::Some { parent } | Path::NewtypeStruct { parent } | Path::NewtypeVariant { parent } => {
            ignored(parent)
        }
    }
}

fn joined(segments: &[Segment]) -> String {
    let mut path = String::new();
    for segment in segments {
        match segment {
            Segment::Seq { index } => path.push_str(&format!("[{index}]")),
            Segment::Map { key } | Segment::Enum { variant: key } => {
                if !path.is_empty() {
                    path.push('.');
                }
                path.push_str(key);
            }
            Segment::Unknown => {}
        }
    }
    path
}

/// Removes the field the path leads to, or the list it leads into; false if there is none.
fn remove(value: &mut Value, segments: &[Segment]) -> bool {
    let fields: Vec<&String> = segments
        .iter()
        .map_while(|segment| if let Segment::Map { key } = segment { Some(key) } else { None })
        .collect();
    let Some((last, parents)) = fields.split_last() else { return false };
    let parent = parents.iter().try_fold(value, |value, name| value.get_mut(name.as_str()));
    parent.and_then(Value::as_object_mut).is_some_and(|object| object.remove(last.as_str()).is_some())
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
    let unquoted = ["boolean", "integer", "floating point"].iter().any(|kind| found.starts_with(kind));
    let remedy = if unquoted && expected == "a string" { "; put it in quotes" } else { "" };
    if found.starts_with("unknown variant") {
        return format!("{}, expected {expected}", found.replacen("unknown variant ", "unknown value ", 1));
    }
    format!("found {found}, expected {expected}{remedy}")
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{Flaw, decode};
    use crate::config::wire::KubeletConfiguration;

    fn flaws(value: Value) -> Vec<(String, String)> {
        let mut flaws: Vec<(String, String)> =
            decode::<KubeletConfiguration>(&value, |path| path == "memorySwap")
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
            ("clusterDomain", "found boolean `true`, expected a string; put it in quotes"),
            ("evictionHard.memory.available", "found integer `5`, expected a string; put it in quotes"),
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
        let read: KubeletConfiguration = decode(&value, |_| false).unwrap();
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
