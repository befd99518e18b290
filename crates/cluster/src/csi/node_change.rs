//! What a Node says of the CSI drivers on it: their names of the node, as an annotation, and where the node is, as labels. The rules and
//! texts are upstream's (`nodeinfomanager`). Pure.

use std::collections::{BTreeMap, BTreeSet};

use hostlet_base::{go_json, go_quoted};
use hostlet_csi::NodeInfo;
use k8s_openapi::api::core::v1::Node;
use serde_json::{Value, json};

/// Why something about a driver cannot be published. The wording is upstream's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum DriverProblem {
    /// The driver has no name of the node.
    #[error("error adding CSI driver node info: driverNodeID must not be empty")]
    NoNodeId,
    /// The annotation is not what kubelets write.
    #[error("failed to parse node's {NODE_IDS:?} annotation value ({}) err={error}", go_quoted(.text))]
    Annotation { text: String, error: String },
    /// The annotation cannot be written.
    #[error("cannot encode node's {NODE_IDS:?} annotation: {0}")]
    Encoding(String),
    /// The driver says that the node is elsewhere.
    #[error(
        "detected topology value collision: driver reported {}:{} but existing label is {}:{}",
        go_quoted(.key), go_quoted(.value), go_quoted(.key), go_quoted(.existing)
    )]
    Collision { key: String, value: String, existing: String },
    /// The API server rejects the change of the Node, and says why.
    #[error("error updating Node object with CSI driver node info: {0}")]
    Rejected(String),
}

/// The annotation: a JSON object of drivers and their names of the node.
const NODE_IDS: &str = "csi.volume.kubernetes.io/nodeid";

/// The patch that adds what a driver says; `None` if the Node says it already. Labels of a driver stay when it is deregistered: volumes
/// may depend on them.
///
/// # Errors
/// Why it cannot be added.
pub(super) fn added(node: &Node, driver: &str, info: &NodeInfo) -> Result<Option<Value>, DriverProblem> {
    if info.node_id.is_empty() {
        return Err(DriverProblem::NoNodeId);
    }
    let mut ids = node_ids(node)?;
    let is_new = ids.insert(driver.to_owned(), info.node_id.clone()).as_ref() != Some(&info.node_id);
    let labels = node.metadata.labels.as_ref();
    let mut missing = BTreeMap::new();
    for (key, value) in &info.topology {
        match labels.and_then(|labels| labels.get(key)) {
            Some(existing) if existing == value => {}
            Some(existing) => {
                let [key, value, existing] = [key, value, existing].map(String::clone);
                return Err(DriverProblem::Collision { key, value, existing });
            }
            None => drop(missing.insert(key, value)),
        }
    }
    if !is_new && missing.is_empty() {
        return Ok(None);
    }
    let mut patch = patch_of(node);
    if is_new {
        patch["metadata"]["annotations"] = json!({NODE_IDS: encoded(&ids)?});
    }
    if !missing.is_empty() {
        patch["metadata"]["labels"] = json!(missing);
    }
    Ok(Some(patch))
}

/// The patch that removes these drivers; `None` if the Node does not have them.
///
/// # Errors
/// Why they cannot be removed.
pub(super) fn removed(node: &Node, drivers: &BTreeSet<String>) -> Result<Option<Value>, DriverProblem> {
    let mut ids = node_ids(node)?;
    let before = ids.len();
    ids.retain(|driver, _| !drivers.contains(driver));
    if ids.len() == before {
        return Ok(None);
    }
    let value = if ids.is_empty() { None } else { Some(encoded(&ids)?) };
    let mut patch = patch_of(node);
    patch["metadata"]["annotations"] = json!({NODE_IDS: value});
    Ok(Some(patch))
}

/// The UID makes sure that the patch applies to the Node that was read, not to a successor of the same name.
fn patch_of(node: &Node) -> Value {
    json!({"metadata": {"uid": node.metadata.uid}})
}

fn node_ids(node: &Node) -> Result<BTreeMap<String, String>, DriverProblem> {
    let annotations = node.metadata.annotations.as_ref();
    let text = annotations.and_then(|annotations| annotations.get(NODE_IDS)).map_or("", String::as_str);
    if text.is_empty() {
        return Ok(BTreeMap::new());
    }
    let ids = serde_json::from_str::<Option<BTreeMap<String, String>>>(text);
    ids.map(Option::unwrap_or_default)
        .map_err(|error| DriverProblem::Annotation { text: text.to_owned(), error: error.to_string() })
}

fn encoded(ids: &BTreeMap<String, String>) -> Result<String, DriverProblem> {
    go_json(ids).map_err(|error| DriverProblem::Encoding(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(annotation: Option<&str>, labels: &Value) -> Node {
        let annotations = annotation.map_or(json!({}), |value| json!({NODE_IDS: value, "other": "x"}));
        let metadata = json!({"uid": "u", "annotations": annotations, "labels": labels});
        serde_json::from_value(json!({"metadata": metadata})).unwrap()
    }

    fn info(id: &str, topology: &[(&str, &str)]) -> NodeInfo {
        let topology = topology.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
        NodeInfo { node_id: id.to_owned(), topology: topology.collect(), ..NodeInfo::default() }
    }

    #[test]
    fn a_driver_is_added_to_others() {
        let zone = info("i-1", &[("topology.a/zone", "z1")]);
        let fresh = node(None, &json!({}));
        let expected = json!({"metadata": {"uid": "u", "annotations": {NODE_IDS: r#"{"a":"i-1"}"#},
            "labels": {"topology.a/zone": "z1"}}});
        assert_eq!(added(&fresh, "a", &zone), Ok(Some(expected)));
        let with_b = node(Some(r#"{"b":"other"}"#), &json!({"topology.a/zone": "z1", "x": "y"}));
        let expected =
            json!({"metadata": {"uid": "u", "annotations": {NODE_IDS: r#"{"a":"i-1","b":"other"}"#}}});
        assert_eq!(added(&with_b, "a", &zone), Ok(Some(expected)), "its label exists");
        let complete = node(Some(r#"{"a":"i-1"}"#), &json!({"topology.a/zone": "z1"}));
        assert_eq!(added(&complete, "a", &zone), Ok(None));
        let renamed = added(&complete, "a", &info("i-2", &[])).unwrap().unwrap();
        assert_eq!(renamed["metadata"]["annotations"][NODE_IDS], r#"{"a":"i-2"}"#);
    }

    #[test]
    fn a_driver_that_cannot_be_added_says_why() {
        let labeled = node(None, &json!({"zone": "z2"}));
        let collision = "detected topology value collision: driver reported \"zone\":\"z1\" but existing label is \"zone\":\"z2\"";
        let problem = |node: &Node, info: &NodeInfo| added(node, "a", info).unwrap_err().to_string();
        assert_eq!(problem(&labeled, &info("i", &[("zone", "z1")])), collision);
        assert!(problem(&labeled, &info("", &[])).ends_with("driverNodeID must not be empty"));
        let broken = problem(&node(Some("{"), &json!({})), &info("i", &[]));
        let text = "failed to parse node's \"csi.volume.kubernetes.io/nodeid\" annotation value (\"{\") err=";
        assert!(broken.starts_with(text), "{broken}");
    }

    #[test]
    fn removed_drivers_leave_the_others_and_all_labels() {
        let drivers = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        let both = node(Some(r#"{"a":"1","b":"2"}"#), &json!({"zone": "z"}));
        let patch = |value: Value| json!({"metadata": {"uid": "u", "annotations": {NODE_IDS: value}}});
        assert_eq!(removed(&both, &drivers(&["a"])), Ok(Some(patch(json!(r#"{"b":"2"}"#)))));
        assert_eq!(removed(&both, &drivers(&["a", "b"])), Ok(Some(patch(Value::Null))));
        assert_eq!(removed(&both, &drivers(&["c"])), Ok(None));
        assert_eq!(removed(&node(None, &json!({})), &drivers(&["a"])), Ok(None));
    }
}
