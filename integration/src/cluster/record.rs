//! Compares an agent's reports with records of the stock kubelet in `integration/golden/`. Values that differ between runs (times,
//! addresses, IDs) are replaced by placeholders.

use std::fs;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::agent::Agent;
use crate::shell::{integration_dir, lib};

/// Fields whose values differ between runs, with their placeholders. Their presence is compared.
const FREE: &[(&str, &str)] = &[
    ("bootID", "(id)"),
    ("containerID", "(id)"),
    ("creationTimestamp", "(time)"),
    ("finishedAt", "(time)"),
    ("firstTimestamp", "(time)"),
    ("hostIP", "(address)"),
    ("imageID", "(id)"),
    ("ip", "(address)"),
    ("kernelVersion", "(version)"),
    ("lastHeartbeatTime", "(time)"),
    ("lastTimestamp", "(time)"),
    ("lastTransitionTime", "(time)"),
    ("machineID", "(id)"),
    ("osImage", "(name)"),
    ("podIP", "(address)"),
    ("resourceVersion", "(version)"),
    ("startTime", "(time)"),
    ("startedAt", "(time)"),
    ("systemUUID", "(id)"),
    ("uid", "(uid)"),
];

/// Strings of this run inside texts, with their placeholders.
pub type Names<'a> = &'a [(&'a str, &'a str)];

/// Compares `seen` with the record `name`; fails with each difference. `names` are strings of this run. With
/// `HOSTLET_TEST_RECORD=1`, and only for the stock kubelet, writes the record instead.
pub fn check(name: &str, seen: &Value, names: Names<'_>) -> Result<()> {
    let file = integration_dir().join("golden").join(format!("{name}.json"));
    let seen = normalized(seen, names);
    if std::env::var_os("HOSTLET_TEST_RECORD").is_some() && Agent::chosen()? == Agent::Stock {
        let text = serde_json::to_string_pretty(&seen)? + "\n";
        return fs::write(&file, text).with_context(|| format!("writing {}", file.display()));
    }
    let text = fs::read_to_string(&file).with_context(|| format!("reading {}", file.display()))?;
    let mut recorded: Value =
        serde_json::from_str(&text).with_context(|| format!("in {}", file.display()))?;
    if !tells_users()? {
        without_users(&mut recorded);
    }
    let mut differences = Vec::new();
    compare("", &recorded, &seen, &mut differences);
    if !differences.is_empty() {
        bail!("not as in {}:\n{}", file.display(), differences.join("\n"));
    }
    Ok(())
}

/// Whether the runtime reports the user of a container's process, like containerd 2, with which the records were made.
fn tells_users() -> Result<bool> {
    Ok(!lib::<&str>("containerd_version", [])?.starts_with("1."))
}

/// Removes the users of containers from a status.
fn without_users(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            if fields.contains_key("restartCount") {
                fields.remove("user");
            }
            fields.values_mut().for_each(without_users);
        }
        Value::Array(items) => items.iter_mut().for_each(without_users),
        _ => {}
    }
}

/// Replaces values that differ between runs.
pub fn normalized(value: &Value, names: Names<'_>) -> Value {
    match value {
        Value::Object(fields) => {
            let field = |(key, value): (&String, &Value)| {
                let free = FREE.iter().find(|(name, _)| name == key);
                let value = match free {
                    Some((_, stand_in)) if !value.is_null() => Value::from(*stand_in),
                    _ => normalized(value, names),
                };
                (replaced(key, names), value)
            };
            Value::Object(fields.iter().map(field).collect())
        }
        Value::Array(items) => items.iter().map(|item| normalized(item, names)).collect(),
        Value::String(text) => Value::from(replaced(text, names)),
        other => other.clone(),
    }
}

fn replaced(text: &str, names: Names<'_>) -> String {
    names.iter().fold(text.to_owned(), |text, (word, stand_in)| text.replace(word, stand_in))
}

/// Adds a line for each difference.
fn compare(path: &str, recorded: &Value, seen: &Value, differences: &mut Vec<String>) {
    match (recorded, seen) {
        (Value::Object(left), Value::Object(right)) => {
            for (key, value) in left {
                compare(&format!("{path}.{key}"), value, right.get(key).unwrap_or(&Value::Null), differences);
            }
            for (key, value) in right.iter().filter(|(key, _)| !left.contains_key(*key)) {
                compare(&format!("{path}.{key}"), &Value::Null, value, differences);
            }
        }
        (Value::Array(left), Value::Array(right)) => {
            for at in 0..left.len().max(right.len()) {
                let (left, right) = (left.get(at), right.get(at));
                let (left, right) = (left.unwrap_or(&Value::Null), right.unwrap_or(&Value::Null));
                compare(&format!("{path}[{at}]"), left, right, differences);
            }
        }
        _ if recorded != seen => differences.push(format!("{path}: recorded {recorded}, seen {seen}")),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_values_that_differ_between_runs_are_replaced() {
        let value = json!({"podIP": "10.0.0.1", "startTime": null, "phase": "Running", "message": "pod a_b(7)",
                           "conditions": [{"type": "Ready", "lastTransitionTime": "now"}]});
        let wanted = json!({"podIP": "(address)", "startTime": null, "phase": "Running", "message": "pod a_b((uid))",
                            "conditions": [{"type": "Ready", "lastTransitionTime": "(time)"}]});
        assert_eq!(normalized(&value, &[("7", "(uid)")]), wanted);
    }

    #[test]
    fn every_difference_is_reported_with_its_path() {
        let (recorded, seen) =
            (json!({"a": [1, 2], "b": "x"}), json!({"a": [1, 3, 4], "c": null, "d": true}));
        let mut differences = Vec::new();
        compare("", &recorded, &seen, &mut differences);
        let wanted = [
            ".a[1]: recorded 2, seen 3",
            ".a[2]: recorded null, seen 4",
            ".b: recorded \"x\", seen null",
            ".d: recorded null, seen true",
        ];
        assert_eq!(differences, wanted);
    }
}
