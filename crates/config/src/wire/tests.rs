//! KubeletConfiguration and its values, decoded strictly.

use hostlet_base::yaml::{Flaw, Problem, decode};
use serde_json::{Value, json};

use super::KubeletConfiguration;

fn flaws(value: Value) -> Vec<(String, String)> {
    let flaw = |Flaw { path, problem }| match problem {
        Problem::Unknown { .. } => (path, "unknown".to_owned()),
        Problem::Wrong { message } => (path, message),
    };
    let mut flaws: Vec<_> = decode::<KubeletConfiguration>(&value).1.into_iter().map(flaw).collect();
    flaws.sort();
    flaws
}

#[test]
fn everything_wrong_is_reported_at_once() {
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
        ("logging.verbosity", "found integer `-1`, expected a non-negative integer"),
        ("logging.vmodule[0].file", "unknown"),
        ("maxPods", "found integer `99999999999`, expected a 32-bit integer"),
        ("memorySwap", "found a list, expected an object"),
        ("port", "found string \"many\", expected a 32-bit integer"),
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
fn empty_texts_and_numbers_of_nanoseconds_are_accepted() {
    let value = json!({
        "cgroupDriver": "", "address": "", "memorySwap": {"swapBehavior": ""},
        "logging": {"flushFrequency": 5_000_000_000_i64, "options": {"json": {"infoBufferSize": 0}}},
    });
    let read: KubeletConfiguration = decode(&value).0.unwrap();
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
