//! What the path and query of a request name.

use std::collections::BTreeMap;

/// A kind of objects, as paths have it: `v1/pods`, `coordination.k8s.io/v1/leases`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Resource(pub(super) String);

/// What a request is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Target {
    pub(super) resource: Resource,
    /// Empty for what is in no namespace, and for all namespaces.
    pub(super) namespace: String,
    /// None for a collection.
    pub(super) name: Option<String>,
    /// E.g. `status`.
    pub(super) subresource: Option<String>,
}

impl Target {
    /// Reads a path; none if an API server would not know it.
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

/// The parameters of a query; the last of equal names.
pub(super) fn parameters(query: Option<&str>) -> BTreeMap<String, String> {
    serde_urlencoded::from_str::<Vec<(String, String)>>(query.unwrap_or_default())
        .unwrap_or_default()
        .into_iter()
        .collect()
}

/// A field selector of the fields a kubelet selects by: `metadata.name`, `metadata.namespace`, `spec.nodeName`,
/// `spec.clusterIP`.
#[derive(Clone, Debug, Default)]
pub(super) struct Selector(Vec<Term>);

#[derive(Clone, Debug)]
struct Term {
    field: String,
    value: String,
    /// Whether the field is to have the value, or not to have it.
    equal: bool,
}

impl Selector {
    pub(super) fn of(text: Option<&String>) -> Self {
        let term = |term: &str| {
            let (field, value) = term.split_once('=')?;
            let (field, equal) = field.strip_suffix('!').map_or((field, true), |field| (field, false));
            Some(Term { field: field.to_owned(), value: value.trim_start_matches('=').to_owned(), equal })
        };
        Self(text.map(|text| text.split(',').filter_map(term).collect()).unwrap_or_default())
    }

    pub(super) fn selects(&self, object: &serde_json::Value) -> bool {
        self.0.iter().all(|term| {
            let found = term.field.split('.').fold(object, |object, part| &object[part]);
            (found.as_str().unwrap_or_default() == term.value) == term.equal
        })
    }
}
