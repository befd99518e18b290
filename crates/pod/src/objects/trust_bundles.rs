//! ClusterTrustBundles as pods refer to them, and what is known of them. Pure.

use std::fmt;
use std::sync::Arc;

use k8s_openapi::api::core::v1::ClusterTrustBundleProjection;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement};

use super::object::ObjectError;

/// A reference to ClusterTrustBundles. `Display` names them for people.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TrustBundleRef {
    /// The one with this name.
    Named(String),
    /// All of a signer whose labels are selected.
    OfSigner {
        /// `spec.signerName` of the bundles.
        signer: String,
        /// A label selector in the text form of the API. `None` selects none, an empty one all (upstream `LabelSelectorAsSelector`).
        selector: Option<String>,
    },
}

impl TrustBundleRef {
    /// The bundles of a source of a volume; `None` if it refers to none.
    pub fn of(source: &ClusterTrustBundleProjection) -> Option<Self> {
        if let Some(name) = &source.name {
            return Some(Self::Named(name.clone()));
        }
        let signer = source.signer_name.clone()?;
        Some(Self::OfSigner { signer, selector: source.label_selector.as_ref().map(selector_text) })
    }
}

impl fmt::Display for TrustBundleRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Named(name) => write!(f, "clustertrustbundle {name}"),
            Self::OfSigner { signer, .. } => write!(f, "clustertrustbundles of {signer}"),
        }
    }
}

/// The trust anchors of the bundles that a reference selects.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TrustAnchors {
    /// Number of bundles.
    pub bundles: usize,
    /// Their certificates as PEM, each once, in an order that says nothing.
    pub pem: String,
}

/// What is known of the trust anchors at the moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum TrustBundleState {
    /// Requested, not yet known.
    #[default]
    Pending,
    /// The anchors of all bundles that there are, perhaps of none.
    Known(Arc<TrustAnchors>),
    /// Not available; the source keeps trying.
    Failed(ObjectError),
}

/// The text form of a label selector, the same for equal selectors.
fn selector_text(selector: &LabelSelector) -> String {
    let labels = selector.match_labels.iter().flatten().map(|(key, value)| format!("{key}={value}"));
    let expressions = selector.match_expressions.iter().flatten().map(requirement_text);
    let mut terms: Vec<String> = labels.chain(expressions).collect();
    terms.sort();
    terms.join(",")
}

/// An operator that the API does not have stays as it is: the API server names it when it rejects the selector.
fn requirement_text(requirement: &LabelSelectorRequirement) -> String {
    let LabelSelectorRequirement { key, operator, values } = requirement;
    let mut values = values.clone().unwrap_or_default();
    values.sort();
    let values = values.join(",");
    match operator.as_str() {
        "In" => format!("{key} in ({values})"),
        "NotIn" => format!("{key} notin ({values})"),
        "Exists" => key.clone(),
        "DoesNotExist" => format!("!{key}"),
        other => format!("{key} {other} ({values})"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn reference(source: Value) -> Option<TrustBundleRef> {
        let mut source = source;
        source["path"] = json!("ca.pem");
        TrustBundleRef::of(&serde_json::from_value(source).unwrap())
    }

    #[test]
    fn a_source_refers_to_a_bundle_by_name_or_to_those_of_a_signer() {
        let selector = |selector: Value| match reference(
            json!({"signerName": "example.com/s", "labelSelector": selector}),
        ) {
            Some(TrustBundleRef::OfSigner { selector, .. }) => selector,
            other => panic!("{other:?}"),
        };
        assert_eq!(reference(json!({"name": "b"})), Some(TrustBundleRef::Named("b".to_owned())));
        assert_eq!(reference(json!({})), None);
        assert_eq!(selector(Value::Null), None);
        assert_eq!(selector(json!({})), Some(String::new()));
        let expression = |key: &str, operator: &str, values: Value| json!({"key": key, "operator": operator, "values": values});
        let all = json!({"matchLabels": {"z": "1", "a": "2"}, "matchExpressions": [
            expression("k", "In", json!(["y", "x"])), expression("l", "NotIn", json!(["x"])),
            expression("m", "Exists", Value::Null), expression("n", "DoesNotExist", Value::Null)]});
        assert_eq!(selector(all).unwrap(), "!n,a=2,k in (x,y),l notin (x),m,z=1");
    }
}
