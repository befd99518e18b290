//! Which form of a page a client accepts: text, or an object of a named version as JSON or YAML. By the rules of the API server's content
//! negotiation. Pure.

/// The group of all versions.
pub(super) const GROUP: &str = "config.k8s.io";

/// The forms of an object, in order of preference.
const OBJECTS: [(&str, Encoding); 2] = [("json", Encoding::Json), ("yaml", Encoding::Yaml)];

/// How an object is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoding {
    /// `application/json`.
    Json,
    /// `application/yaml`.
    Yaml,
}

/// The version of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// `v1alpha1`, with a warning.
    V1Alpha1,
    /// `v1beta1`.
    V1Beta1,
}

impl Version {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::V1Alpha1 => "v1alpha1",
            Self::V1Beta1 => "v1beta1",
        }
    }
}

/// A form of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// The text for people.
    Text,
    /// An object of the API for programs, in this encoding and version.
    Object(Encoding, Version),
}

/// The first form of an object of this kind that `Accept` matches; `None` if none does. Without the header, it is text.
pub fn form(accept: &str, kind: &str) -> Option<Form> {
    if accept.trim().is_empty() {
        return Some(Form::Text);
    }
    let mut clauses: Vec<Clause<'_>> = accept.split(',').filter_map(Clause::parse).collect();
    clauses.sort_by(|a, b| b.quality.total_cmp(&a.quality).then(a.stars().cmp(&b.stars())));
    clauses.iter().find_map(|clause| {
        let objects = OBJECTS.into_iter().filter(|(subtype, _)| clause.matches("application", subtype));
        let version = clause.version(kind);
        let mut objects = objects.filter_map(|(_, encoding)| Some(Form::Object(encoding, version?)));
        let is_text = clause.matches("text", "plain") && clause.target.is_none();
        objects.next().or(is_text.then_some(Form::Text))
    })
}

/// An accepted type.
#[derive(Debug)]
struct Clause<'a> {
    kind: &'a str,
    subtype: &'a str,
    quality: f64,
    /// The wanted group, version and kind; `None` if there is none of them.
    target: Option<[&'a str; 3]>,
}

impl<'a> Clause<'a> {
    fn parse(text: &'a str) -> Option<Self> {
        let mut parts = text.split(';').map(str::trim);
        let (kind, subtype) = match parts.next()? {
            "*" => ("*", "*"),
            both => both.split_once('/')?,
        };
        let mut clause = Self { kind, subtype, quality: 1.0, target: None };
        for (name, value) in parts.filter_map(|part| part.split_once('=')) {
            let place = match name {
                "q" => {
                    clause.quality = value.parse().unwrap_or(1.0);
                    continue;
                }
                "g" => 0,
                "v" => 1,
                "as" => 2,
                _ => continue,
            };
            clause.target.get_or_insert([""; 3])[place] = value;
        }
        Some(clause)
    }

    fn stars(&self) -> usize {
        [self.kind, self.subtype].iter().filter(|part| **part == "*").count()
    }

    fn matches(&self, kind: &str, subtype: &str) -> bool {
        (self.kind == "*" && self.subtype == "*")
            || (self.kind == kind && (self.subtype == subtype || self.subtype == "*"))
    }

    fn version(&self, kind: &str) -> Option<Version> {
        let [group, version, wanted] = self.target?;
        let known = [Version::V1Alpha1, Version::V1Beta1].into_iter().find(|known| known.as_str() == version);
        known.filter(|_| group == GROUP && wanted == kind)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms_are_negotiated_as_by_the_api_server() {
        let object = |encoding, version| Some(Form::Object(encoding, version));
        let beta = "g=config.k8s.io;v=v1beta1;as=Statusz";
        for (accept, expected) in [
            ("", Some(Form::Text)),
            ("*/*", Some(Form::Text)),
            ("text/*", Some(Form::Text)),
            // kubectl get --raw.
            ("application/json, */*", Some(Form::Text)),
            ("application/json", None),
            ("text/html", None),
            (&format!("application/json;{beta}"), object(Encoding::Json, Version::V1Beta1)),
            (
                &format!("application/yaml; {}", beta.replace(';', "; ")),
                object(Encoding::Yaml, Version::V1Beta1),
            ),
            (&format!("*/*;{beta}"), object(Encoding::Json, Version::V1Beta1)),
            (
                "application/json;g=config.k8s.io;v=v1alpha1;as=Statusz",
                object(Encoding::Json, Version::V1Alpha1),
            ),
            ("application/json;g=config.k8s.io;v=v2;as=Statusz", None),
            ("application/json;g=config.k8s.io;v=v1beta1;as=Flagz", None),
            (&format!("text/plain;{beta}"), None),
            (
                &format!("text/plain;q=0.5, application/yaml;q=0.9;{beta}"),
                object(Encoding::Yaml, Version::V1Beta1),
            ),
            (";;=,/,", None),
        ] {
            assert_eq!(form(accept, "Statusz"), expected, "{accept}");
        }
    }
}
