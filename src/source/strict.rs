//! The strict way to read a manifest: every field that a Pod does not have is reported, with the nearest one it does have.
//! The Kubernetes types themselves skip what they do not know.

use std::cell::RefCell;

use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::config::nearest;
use crate::types::json;

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
pub(super) fn decode<T: DeserializeOwned>(value: &Value) -> (Option<T>, Vec<Flaw>) {
    let flaws = RefCell::new(Vec::new());
    let read = json::from_value_telling(value, &|field| {
        let mut flaws = flaws.borrow_mut();
        let known = field.known.iter().copied();
        let nearest = if flaws.len() < SUGGESTIONS { nearest(field.name, known) } else { None };
        let message = match nearest {
            Some(nearest) => format!("unknown field, did you mean {nearest:?}?"),
            None => "unknown field".to_owned(),
        };
        flaws.push(Flaw { path: field.path, message });
    });
    let mut flaws = flaws.into_inner();
    match read {
        Ok(read) => (Some(read), flaws),
        Err(json::Mismatch { path, message }) => {
            flaws.push(Flaw { path, message });
            (None, flaws)
        }
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
