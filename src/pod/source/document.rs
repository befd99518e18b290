//! The documents of a YAML or JSON text, with the line each value stands on. Knows nothing of what they mean.

use std::fmt;

use serde::Deserialize;
use serde::de::{self, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Number, Value};
use serde_saphyr::Spanned;

/// One document of a text.
#[derive(Debug)]
pub(super) struct Document {
    root: Node,
}

/// A value and where it stands.
type Node = Spanned<Content>;

#[derive(Debug)]
enum Content {
    Null,
    Bool(bool),
    Number(Number),
    Text(String),
    List(Vec<Node>),
    Object(Vec<(Spanned<String>, Node)>),
}

/// Reads every document of `text` that holds anything. A key given twice is an error, as is anything that is not YAML.
pub(super) fn parse_documents(text: &str) -> Result<Vec<Document>, serde_saphyr::Error> {
    // Manifests are YAML 1.1, where `defaultMode: 0400` is octal.
    let options = serde_saphyr::options! { legacy_octal_numbers: true, with_snippet: false };
    let roots: Vec<Node> = serde_saphyr::from_multiple_with_options(text, options)?;
    let filled = roots.into_iter().filter(|root| !matches!(root.value, Content::Null));
    Ok(filled.map(|root| Document { root }).collect())
}

impl Document {
    /// The document without its lines.
    pub(super) fn value(&self) -> Value {
        self.root.value.to_value()
    }

    /// The line, from one, of what stands at `path` (`spec.containers[0].image`), or of the nearest thing around it.
    pub(super) fn line_of(&self, path: &str) -> u64 {
        let (mut node, mut line, mut rest) = (&self.root, self.root.referenced.line(), path);
        while let Some((next, next_line, next_rest)) = step(&node.value, rest) {
            (node, line, rest) = (next, next_line, next_rest);
        }
        line
    }
}

/// One step along `path`: what it leads to, its line, and the rest of the path.
fn step<'n, 'p>(content: &'n Content, path: &'p str) -> Option<(&'n Node, u64, &'p str)> {
    match content {
        Content::Null | Content::Bool(_) | Content::Number(_) | Content::Text(_) => None,
        Content::List(items) => {
            let (index, rest) = path.strip_prefix('[')?.split_once(']')?;
            let item = items.get(index.parse::<usize>().ok()?)?;
            Some((item, item.referenced.line(), rest))
        }
        Content::Object(fields) => {
            let bare = path.strip_prefix('.').unwrap_or(path);
            // A key may itself hold dots, as those of annotations do: the longest that fits is meant.
            let fits = |(key, value): &'n (Spanned<String>, Node)| {
                let rest = match path.strip_prefix('[') {
                    Some(inner) => inner.strip_prefix(key.value.as_str())?.strip_prefix(']')?,
                    None => bare.strip_prefix(key.value.as_str())?,
                };
                (rest.is_empty() || rest.starts_with(['.', '['])).then_some((
                    value,
                    key.referenced.line(),
                    rest,
                ))
            };
            fields.iter().filter_map(fits).min_by_key(|(_, _, rest)| rest.len())
        }
    }
}

impl Content {
    fn to_value(&self) -> Value {
        match self {
            Self::Null => Value::Null,
            Self::Bool(value) => Value::Bool(*value),
            Self::Number(number) => Value::Number(number.clone()),
            Self::Text(text) => Value::String(text.clone()),
            Self::List(items) => items.iter().map(|item| item.value.to_value()).collect(),
            Self::Object(fields) => {
                fields.iter().map(|(key, item)| (key.value.clone(), item.value.to_value())).collect()
            }
        }
    }
}

impl<'de> Deserialize<'de> for Content {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ContentVisitor)
    }
}

struct ContentVisitor;

impl<'de> Visitor<'de> for ContentVisitor {
    type Value = Content;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E>(self) -> Result<Content, E> {
        Ok(Content::Null)
    }

    fn visit_none<E>(self) -> Result<Content, E> {
        Ok(Content::Null)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Content, D::Error> {
        Content::deserialize(deserializer)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Content, E> {
        Ok(Content::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Content, E> {
        Ok(Content::Number(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Content, E> {
        Ok(Content::Number(value.into()))
    }

    fn visit_f64<E: de::Error>(self, value: f64) -> Result<Content, E> {
        Number::from_f64(value).map(Content::Number).ok_or_else(|| E::custom("the number is not finite"))
    }

    fn visit_str<E>(self, text: &str) -> Result<Content, E> {
        Ok(Content::Text(text.to_owned()))
    }

    fn visit_string<E>(self, text: String) -> Result<Content, E> {
        Ok(Content::Text(text))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Content, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element()? {
            list.push(item);
        }
        Ok(Content::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Content, A::Error> {
        let mut fields = Vec::new();
        while let Some(entry) = entries.next_entry()? {
            fields.push(entry);
        }
        Ok(Content::Object(fields))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::parse_documents;

    const TEXT: &str = "\
apiVersion: v1
metadata:
  annotations:
    a: 1
    a.b/c: x
spec:
  containers:
  - name: one

  - name: two
    ports: [{containerPort: 80},
      {containerPort: 81}]
";

    #[test]
    fn lines_are_those_of_the_keys_and_items() {
        let documents = parse_documents(TEXT).unwrap();
        for (path, line) in [
            ("", 1),
            ("apiVersion", 1),
            ("metadata.annotations", 3),
            ("metadata.annotations.a", 4),
            ("metadata.annotations.a.b/c", 5),
            ("metadata.annotations[a.b/c]", 5),
            ("spec.containers[0]", 8),
            ("spec.containers[1].name", 10),
            ("spec.containers[1].ports[1].containerPort", 12),
            ("spec.containers[1].image", 10),
            ("spec.containers[7].image", 7),
            ("spec.nodeName", 6),
            ("status.phase", 1),
            ("[", 1),
            ("spec.containers[x]", 7),
        ] {
            assert_eq!(documents[0].line_of(path), line, "{path}");
        }
    }

    #[test]
    fn values_are_kept() {
        let documents =
            parse_documents("a: [1, -1, 0.5, true, ~, 'x', 18446744073709551615]\nb: {c: }\n").unwrap();
        assert_eq!(
            documents[0].value(),
            json!({"a": [1, -1, 0.5, true, null, "x", u64::MAX], "b": {"c": null}})
        );
        let documents = parse_documents("base: &b {x: 1}\nuse: *b\nmerged: {<<: *b, y: 2}\n").unwrap();
        assert_eq!(
            documents[0].value(),
            json!({"base": {"x": 1}, "use": {"x": 1}, "merged": {"x": 1, "y": 2}})
        );
    }

    #[test]
    fn json_may_be_indented_with_tabs() {
        let documents = parse_documents("{\n\t\"a\": [\n\t\t1,\n\t\t{\"b\": \"\\u00e9\"}\n\t]\n}\n").unwrap();
        assert_eq!(documents[0].value(), json!({"a": [1, {"b": "é"}]}));
        assert_eq!(documents[0].line_of("a[1].b"), 4);
    }

    #[test]
    fn bombs_are_refused() {
        let mut bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
        for level in 1..12 {
            let before = format!("*a{}", level - 1);
            bomb += &format!("a{level}: &a{level} [{}]\n", [before.as_str(); 10].join(", "));
        }
        assert!(parse_documents(&bomb).is_err());
        assert!(parse_documents(&"[".repeat(100_000)).is_err());
        assert!(parse_documents(&"{a: ".repeat(100_000)).is_err());
        let deep = format!("{}{}", "[".repeat(5_000), "]".repeat(5_000));
        let _ = parse_documents(&deep);
    }
}
