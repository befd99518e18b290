//! Strict decoding of pods.

use k8s_openapi::api::core::v1::Pod;
use serde_json::json;

use super::{Flaw, Problem, decode};

fn flaws(value: serde_json::Value) -> Vec<(String, String)> {
    let message = |flaw: Flaw| match flaw.problem {
        Problem::Unknown { nearest: Some(nearest) } => (flaw.path, format!("unknown, nearest {nearest}")),
        Problem::Unknown { nearest: None } => (flaw.path, "unknown".to_owned()),
        Problem::Wrong { message } => (flaw.path, message),
    };
    decode::<Pod>(&value).1.into_iter().map(message).collect()
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
            flaw("metdata", "unknown, nearest metadata"),
            flaw("spec.containers[0].images", "unknown, nearest image"),
            flaw("spec.containers[1].ports[0].containerport", "unknown, nearest containerPort"),
            flaw("spec.hostnetwork", "unknown, nearest hostNetwork"),
            flaw("spec.zzz", "unknown"),
        ]
    );
}

#[test]
fn a_wrong_value_is_reported_with_its_path() {
    let pod = |spec| json!({"apiVersion": "v1", "kind": "Pod", "spec": spec});
    for (spec, path, message) in [
        (json!([]), "spec", "found a list, expected an object"),
        (json!({"containers": {}}), "spec.containers", "found an object, expected a list"),
        (
            json!({"containers": [{"ports": [{"containerPort": "80"}]}]}),
            "spec.containers[0].ports[0].containerPort",
            "found string \"80\", expected a 32-bit integer",
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
fn integers_out_of_range_are_rejected() {
    let pod = json!({"apiVersion": "v1", "kind": "Pod",
        "spec": {"containers": [{"ports": [{"containerPort": 4_294_967_296_u64}]}]}});
    assert_eq!(flaws(pod)[0].0, "spec.containers[0].ports[0].containerPort");
}

#[test]
fn wrong_values_and_unknown_fields_are_all_reported_at_once() {
    let pod = json!({"spec": {"hostNetwork": 1, "zzz": 1, "containers": [{"name": 2}]}, "kind": []});
    let mut found = flaws(pod.clone());
    found.sort();
    let paths: Vec<&str> = found.iter().map(|(path, _)| path.as_str()).collect();
    assert_eq!(paths, ["kind", "spec.containers[0].name", "spec.hostNetwork", "spec.zzz"]);
    assert_eq!(decode::<Pod>(&pod).0, None);
}

#[test]
fn of_a_document_full_of_wrong_values_the_first_are_reported() {
    let containers: Vec<_> = (0..10_000).map(|n| json!({"name": n})).collect();
    assert_eq!(flaws(json!({"spec": {"containers": containers}})).len(), 1, "a wrong item removes its list");
    let labels: serde_json::Map<_, _> = (0..10_000).map(|n| (format!("l{n}"), json!(n))).collect();
    assert_eq!(flaws(json!({"metadata": {"labels": labels}})).len(), super::MAX_WRONG);
}
