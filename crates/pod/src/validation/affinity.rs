//! Node affinity, by which admission judges pods. What only the scheduler reads is not checked.

use k8s_openapi::api::core::v1::{NodeAffinity, NodeSelectorRequirement, NodeSelectorTerm};

use super::{Errors, FieldError, FieldPath, each_invalid, list, names};

/// The only field of a node that a term can name.
const NAME: &str = "metadata.name";

const WEIGHTS: std::ops::RangeInclusive<i32> = 1..=100;

pub(super) fn check(affinity: &NodeAffinity, path: &FieldPath, errors: &mut Errors) {
    if let Some(selector) = &affinity.required_during_scheduling_ignored_during_execution {
        let path = path.child("requiredDuringSchedulingIgnoredDuringExecution").child("nodeSelectorTerms");
        if selector.node_selector_terms.is_empty() {
            errors.push(FieldError::required(&path, "must have at least one node selector term"));
        }
        for (index, term) in selector.node_selector_terms.iter().enumerate() {
            check_term(term, Values::Checked, &path.index(index), errors);
        }
    }
    let preferred = list(&affinity.preferred_during_scheduling_ignored_during_execution);
    for (index, preferred) in preferred.iter().enumerate() {
        let path = path.child("preferredDuringSchedulingIgnoredDuringExecution").index(index);
        if !WEIGHTS.contains(&preferred.weight) {
            let rule = "must be in the range 1-100";
            errors.push(FieldError::invalid(&path.child("weight"), preferred.weight, rule));
        }
        check_term(&preferred.preference, Values::Any, &path.child("preference"), errors);
    }
}

/// Whether values must be valid values of a label. Upstream never demanded that of preferred terms.
#[derive(Clone, Copy, PartialEq)]
enum Values {
    Checked,
    Any,
}

fn check_term(term: &NodeSelectorTerm, allowed: Values, path: &FieldPath, errors: &mut Errors) {
    for (index, requirement) in list(&term.match_expressions).iter().enumerate() {
        check_label(requirement, allowed, &path.child("matchExpressions").index(index), errors);
    }
    for (index, requirement) in list(&term.match_fields).iter().enumerate() {
        check_field(requirement, &path.child("matchFields").index(index), errors);
    }
}

fn check_label(
    requirement: &NodeSelectorRequirement,
    allowed: Values,
    path: &FieldPath,
    errors: &mut Errors,
) {
    let (values, values_path) = (list(&requirement.values), path.child("values"));
    match requirement.operator.as_str() {
        "In" | "NotIn" if values.is_empty() => {
            let why = "must be specified when `operator` is 'In' or 'NotIn'";
            errors.push(FieldError::required(&values_path, why));
        }
        "Exists" | "DoesNotExist" if !values.is_empty() => {
            let why = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'";
            errors.push(FieldError::forbidden(&values_path, why));
        }
        "Gt" | "Lt" if values.len() != 1 => {
            let why = "must be specified single value when `operator` is 'Lt' or 'Gt'";
            errors.push(FieldError::required(&values_path, why));
        }
        "In" | "NotIn" | "Exists" | "DoesNotExist" | "Gt" | "Lt" => {}
        other => errors.push(not_an_operator(other, path)),
    }
    each_invalid(errors, &path.child("key"), &requirement.key, names::qualified_name(&requirement.key));
    for (index, value) in values.iter().enumerate().filter(|_| allowed == Values::Checked) {
        each_invalid(errors, &values_path.index(index), value, names::label_value(value));
    }
}

fn check_field(requirement: &NodeSelectorRequirement, path: &FieldPath, errors: &mut Errors) {
    let (values, values_path) = (list(&requirement.values), path.child("values"));
    match requirement.operator.as_str() {
        "In" | "NotIn" if values.len() != 1 => {
            let why = "must be only one value when `operator` is 'In' or 'NotIn' for node field selector";
            errors.push(FieldError::required(&values_path, why));
        }
        "In" | "NotIn" => {}
        other => errors.push(not_an_operator(other, path)),
    }
    if requirement.key != NAME {
        let rule = "not a valid field selector key";
        errors.push(FieldError::invalid(&path.child("key"), &requirement.key, rule));
        return;
    }
    for (index, value) in values.iter().enumerate() {
        each_invalid(errors, &values_path.index(index), value, names::dns_subdomain(value));
    }
}

fn not_an_operator(operator: &str, path: &FieldPath) -> FieldError {
    FieldError::invalid(&path.child("operator"), operator, "not a valid selector operator")
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn errors(affinity: Value) -> Vec<String> {
        let mut errors = Vec::new();
        check(&serde_json::from_value(affinity).unwrap(), &FieldPath::root("a"), &mut errors);
        errors.iter().map(ToString::to_string).collect()
    }

    fn required(term: Value) -> Vec<String> {
        let path = "a.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0].";
        let selector = json!({"nodeSelectorTerms": [term]});
        let found = errors(json!({"requiredDuringSchedulingIgnoredDuringExecution": selector}));
        found.iter().map(|error| error.strip_prefix(path).unwrap().to_owned()).collect()
    }

    #[test]
    fn operators_have_the_values_that_they_need() {
        for (operator, values) in [
            ("In", json!(["a", "b"])),
            ("NotIn", json!([""])),
            ("Exists", Value::Null),
            ("DoesNotExist", json!([])),
            ("Gt", json!(["1"])),
            ("Lt", json!(["x"])),
        ] {
            let label = json!({"key": "example.com/a", "operator": operator, "values": values});
            assert_eq!(required(json!({"matchExpressions": [label]})), [""; 0], "{operator}");
        }
        for (operator, values, error) in [
            ("In", json!([]), "values: Required value: must be specified when `operator` is 'In' or 'NotIn'"),
            (
                "Exists",
                json!(["a"]),
                "values: Forbidden: may not be specified when `operator` is 'Exists' or 'DoesNotExist'",
            ),
            (
                "Gt",
                json!(["1", "2"]),
                "values: Required value: must be specified single value when `operator` is 'Lt' or 'Gt'",
            ),
            ("in", json!([]), "operator: Invalid value: \"in\": not a valid selector operator"),
        ] {
            let label = json!({"key": "a", "operator": operator, "values": values});
            let found = required(json!({"matchExpressions": [label]}));
            assert_eq!(found, [format!("matchExpressions[0].{error}")], "{operator}");
        }
    }

    #[test]
    fn a_field_is_the_name_of_one_node() {
        let of = |key: &str, operator: &str, values: Value| {
            let field = json!({"key": key, "operator": operator, "values": values});
            required(json!({"matchFields": [field]}))
        };
        assert_eq!(of("metadata.name", "In", json!(["node-1"])), [""; 0]);
        for (key, operator, values, error) in [
            ("metadata.uid", "In", json!(["x"]), "key: Invalid value"),
            ("metadata.name", "Exists", json!([]), "operator: Invalid value"),
            ("metadata.name", "In", json!(["a", "b"]), "values: Required value: must be only one value"),
            ("metadata.name", "In", json!(["A"]), "values[0]: Invalid value"),
        ] {
            let found = of(key, operator, values);
            assert!(
                found.len() == 1 && found[0].starts_with(&format!("matchFields[0].{error}")),
                "{found:?}"
            );
        }
    }

    #[test]
    fn preferred_terms_have_a_weight_and_any_values() {
        let of = |weight: i32| {
            let term = json!({"matchExpressions": [{"key": "a", "operator": "In", "values": ["a b"]}]});
            errors(
                json!({"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": weight, "preference": term}]}),
            )
        };
        assert_eq!(of(100), [""; 0]);
        let path = "a.preferredDuringSchedulingIgnoredDuringExecution[0].weight";
        assert_eq!(of(0), [format!("{path}: Invalid value: 0: must be in the range 1-100")]);
        let none =
            errors(json!({"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": []}}));
        assert!(none[0].ends_with("Required value: must have at least one node selector term"), "{none:?}");
    }
}
