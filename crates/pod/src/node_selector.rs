//! The terms that select nodes, of pods and of PersistentVolumes. Pure; tested where pods' affinity is.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{NodeSelectorRequirement, NodeSelectorTerm};

/// Whether one of the terms matches the node with this name and these labels.
pub fn matches_node_selector(
    terms: &[NodeSelectorTerm],
    name: &str,
    labels: &BTreeMap<String, String>,
) -> bool {
    terms.iter().any(|term| matches_term(term, name, labels))
}

/// Whether all requirements of a term match; a term without requirements matches nothing.
fn matches_term(term: &NodeSelectorTerm, name: &str, labels: &BTreeMap<String, String>) -> bool {
    let expressions = term.match_expressions.as_deref().unwrap_or_default();
    let fields = term.match_fields.as_deref().unwrap_or_default();
    // The only field of a node that `matchFields` supports.
    let field = |key: &str| (key == "metadata.name").then_some(name);
    let label = |key: &str| labels.get(key).map(String::as_str);
    !(expressions.is_empty() && fields.is_empty())
        && expressions.iter().all(|requirement| matches_value(requirement, label(&requirement.key)))
        && fields.iter().all(|requirement| matches_value(requirement, field(&requirement.key)))
}

fn matches_value(requirement: &NodeSelectorRequirement, value: Option<&str>) -> bool {
    let values = requirement.values.as_deref().unwrap_or_default();
    let is_listed = value.is_some_and(|value| values.iter().any(|listed| listed == value));
    let number = |text: Option<&str>| text.and_then(|text| text.parse::<i64>().ok());
    let bound = number(values.first().map(String::as_str));
    match requirement.operator.as_str() {
        "In" => is_listed,
        "NotIn" => !is_listed,
        "Exists" => value.is_some(),
        "DoesNotExist" => value.is_none(),
        "Gt" => number(value).zip(bound).is_some_and(|(value, bound)| value > bound),
        "Lt" => number(value).zip(bound).is_some_and(|(value, bound)| value < bound),
        // API validation permits no other operator.
        _ => false,
    }
}
