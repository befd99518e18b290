//! Whether a pod's node selector and required node affinity match this node (Kubernetes docs, "Assigning Pods to Nodes").
//! Pure.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::PodSpec;

use hostlet_pod::matches_node_selector;

/// Whether the pod may be placed on a node with this name and these labels.
pub(super) fn matches(spec: &PodSpec, name: &str, labels: &BTreeMap<String, String>) -> bool {
    let mut selected = spec.node_selector.iter().flatten();
    if !selected.all(|(key, value)| labels.get(key) == Some(value)) {
        return false;
    }
    let affinity = spec.affinity.as_ref().and_then(|affinity| affinity.node_affinity.as_ref());
    let required = affinity.and_then(|a| a.required_during_scheduling_ignored_during_execution.as_ref());
    required.is_none_or(|required| matches_node_selector(&required.node_selector_terms, name, labels))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn placed(spec: Value) -> bool {
        let labels = [("zone", "a"), ("cpus", "8")].map(|(key, value)| (key.to_owned(), value.to_owned()));
        let mut whole = json!({"containers": []});
        whole.as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
        matches(&serde_json::from_value(whole).unwrap(), "n1", &labels.into())
    }

    fn required(terms: Value) -> Value {
        let required = json!({"nodeSelectorTerms": terms});
        json!({"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}})
    }

    fn expression(key: &str, operator: &str, values: &[&str]) -> bool {
        let expression = json!({"key": key, "operator": operator, "values": values});
        placed(required(json!([{"matchExpressions": [expression]}])))
    }

    #[test]
    fn every_label_of_the_node_selector_must_match() {
        assert!(placed(json!({})));
        assert!(placed(json!({"nodeSelector": {"zone": "a", "cpus": "8"}})));
        assert!(!placed(json!({"nodeSelector": {"zone": "a", "cpus": "9"}})));
        assert!(!placed(json!({"nodeSelector": {"gpu": ""}})));
    }

    #[test]
    fn each_operator_matches_as_documented() {
        assert!(expression("zone", "In", &["b", "a"]) && !expression("zone", "In", &["b"]));
        assert!(expression("zone", "NotIn", &["b"]) && !expression("zone", "NotIn", &["a"]));
        assert!(expression("gpu", "NotIn", &["a"]) && !expression("gpu", "In", &["a"]));
        assert!(expression("zone", "Exists", &[]) && !expression("gpu", "Exists", &[]));
        assert!(expression("gpu", "DoesNotExist", &[]) && !expression("zone", "DoesNotExist", &[]));
        assert!(expression("cpus", "Gt", &["7"]) && !expression("cpus", "Gt", &["8"]));
        assert!(expression("cpus", "Lt", &["9"]) && !expression("zone", "Lt", &["9"]));
    }

    #[test]
    fn one_matching_term_suffices_and_all_its_requirements_must_match() {
        let zone = json!({"key": "zone", "operator": "In", "values": ["a"]});
        let name = |name| json!({"key": "metadata.name", "operator": "In", "values": [name]});
        assert!(placed(required(json!([{"matchFields": [name("n2")]}, {"matchExpressions": [zone]}]))));
        assert!(placed(required(json!([{"matchFields": [name("n1")], "matchExpressions": [zone]}]))));
        assert!(!placed(required(json!([{"matchFields": [name("n2")], "matchExpressions": [zone]}]))));
        assert!(!placed(required(json!([{}]))));
        assert!(!placed(required(json!([]))));
    }
}
