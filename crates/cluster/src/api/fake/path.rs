//! Parses the path and query of a request.

use std::collections::BTreeMap;

/// A resource as in paths: `v1/pods`, `coordination.k8s.io/v1/leases`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Resource(pub(super) String);

/// The target of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Target {
    pub(super) resource: Resource,
    /// Empty for cluster-scoped resources and for all namespaces.
    pub(super) namespace: String,
    /// `None` for a collection.
    pub(super) name: Option<String>,
    /// The subresource, e.g. `status`.
    pub(super) subresource: Option<String>,
}

impl Target {
    /// Parses a path; `None` if an API server does not serve it.
    pub(super) fn of(path: &str) -> Option<Self> {
        let mut parts = path.trim_matches('/').split('/');
        let version = match parts.next()? {
            "api" => parts.next()?.to_owned(),
            "apis" => format!("{}/{}", parts.next()?, parts.next()?),
            _ => return None,
        };
        let mut rest: Vec<&str> = parts.collect();
        let mut namespace = String::new();
        if let ["namespaces", name, _, ..] = rest[..] {
            namespace = name.to_owned();
            rest.drain(..2);
        }
        let mut rest = rest.into_iter();
        Some(Self {
            resource: Resource(format!("{version}/{}", rest.next()?)),
            namespace,
            name: rest.next().map(str::to_owned),
            subresource: rest.next().map(str::to_owned),
        })
    }
}

/// The query parameters; the last one of a name wins.
pub(super) fn parameters(query: Option<&str>) -> BTreeMap<String, String> {
    serde_urlencoded::from_str::<Vec<(String, String)>>(query.unwrap_or_default())
        .unwrap_or_default()
        .into_iter()
        .collect()
}

/// A field selector, for the fields that a kubelet uses: `metadata.name`, `metadata.namespace`, `spec.nodeName`, `spec.signerName`,
/// `spec.clusterIP`; and a selector of equal or different labels.
#[derive(Clone, Debug, Default)]
pub(super) struct Selector {
    fields: Vec<Term>,
    labels: Vec<Term>,
}

#[derive(Clone, Debug)]
struct Term {
    field: String,
    value: String,
    /// Whether the field must equal or not equal the value.
    equal: bool,
}

impl Selector {
    pub(super) fn of(fields: Option<&String>, labels: Option<&String>) -> Self {
        let term = |term: &str| {
            let (field, value) = term.split_once('=')?;
            let (field, equal) = field.strip_suffix('!').map_or((field, true), |field| (field, false));
            Some(Term { field: field.to_owned(), value: value.trim_start_matches('=').to_owned(), equal })
        };
        let terms = |text: Option<&String>| {
            text.map(|text| text.split(',').filter_map(term).collect()).unwrap_or_default()
        };
        Self { fields: terms(fields), labels: terms(labels) }
    }

    pub(super) fn selects(&self, object: &serde_json::Value) -> bool {
        let is_met = |term: &Term, found: &serde_json::Value| {
            (found.as_str().unwrap_or_default() == term.value) == term.equal
        };
        self.fields
            .iter()
            .all(|term| is_met(term, term.field.split('.').fold(object, |object, part| &object[part])))
            && self.labels.iter().all(|term| is_met(term, &object["metadata"]["labels"][&term.field]))
    }
}
