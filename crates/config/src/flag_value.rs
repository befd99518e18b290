//! Parses the text of flags into the JSON value that the configuration file would have. Knows no flag by name.

use serde_json::{Map, Value};

use hostlet_base::go_integer;

/// Why the text of a flag is not a value of its kind.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum FlagValueError {
    #[error("{0:?} is neither true nor false")]
    Bool(String),
    #[error("{0:?} is not a whole number")]
    Number(String),
    #[error("{item:?} should be a name and a value with {separator:?} between them")]
    Pair { item: String, separator: &'static str },
    #[error("{0:?} should be like key=value:NoSchedule")]
    Taint(String),
}

/// How a flag's text is parsed. The value itself is validated later, as for a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FlagKind {
    /// `true` or `false`; without a value, true.
    Bool,
    Number,
    /// Text, including durations, paths and names.
    Text,
    /// An IP address; empty text leaves the field as it is.
    Address,
    /// `a,b`; repeated flags append.
    List,
    /// `a=1,b=2`; repeated flags add to it.
    Map,
    /// `memory.available<1Gi,...`; repeated flags add to it.
    Thresholds,
    /// `Gate=true,...`; repeated flags add to it.
    Gates,
    /// `Name:value,...`; a repeated name adds a value.
    Headers,
    /// `key=value:Effect,...`; the last flag replaces those before it.
    Taints,
    /// `node:memory=1Gi,hugepages-1Gi=2Gi;...`; repeated flags append, empty text leaves the field as it is.
    MemoryReservations,
    /// `pattern=3,...`; repeated flags append.
    VModule,
}

impl FlagKind {
    /// Whether of several flags only the last counts.
    pub(super) fn is_replaced(self) -> bool {
        match self {
            Self::Bool | Self::Number | Self::Text | Self::Address | Self::Taints => true,
            Self::List
            | Self::Map
            | Self::Thresholds
            | Self::Gates
            | Self::Headers
            | Self::MemoryReservations
            | Self::VModule => false,
        }
    }
}

/// The value that a flag sets, given `texts` in order; `None` if it leaves the field as it is.
pub(super) fn value(kind: FlagKind, texts: &[String]) -> Result<Option<Value>, FlagValueError> {
    let is_counted = |text: &&String| match kind {
        FlagKind::Address | FlagKind::MemoryReservations => !text.is_empty(),
        FlagKind::Bool
        | FlagKind::Number
        | FlagKind::Text
        | FlagKind::List
        | FlagKind::Map
        | FlagKind::Thresholds
        | FlagKind::Gates
        | FlagKind::Headers
        | FlagKind::Taints
        | FlagKind::VModule => true,
    };
    let counted: Vec<&str> = texts.iter().filter(is_counted).map(String::as_str).collect();
    match counted.last() {
        None => Ok(None),
        Some(last) if kind.is_replaced() => set_value(kind, &[*last]).map(Some),
        Some(_) => set_value(kind, &counted).map(Some),
    }
}

fn set_value(kind: FlagKind, texts: &[&str]) -> Result<Value, FlagValueError> {
    let last = texts.last().copied().unwrap_or_default();
    let items =
        || texts.iter().flat_map(|text| text.split(',')).map(str::trim).filter(|item| !item.is_empty());
    match kind {
        FlagKind::Bool => boolean(last).map(Value::Bool),
        FlagKind::Number => number(last),
        FlagKind::Text | FlagKind::Address => Ok(Value::from(last)),
        FlagKind::List => Ok(items().map(Value::from).collect()),
        FlagKind::Map => pairs(items(), "=", |text| Ok(Value::from(text))),
        FlagKind::Thresholds => pairs(items(), "<", |text| Ok(Value::from(text))),
        FlagKind::Gates => pairs(items(), "=", |text| boolean(text).map(Value::Bool)),
        FlagKind::Headers => headers(items()),
        FlagKind::Taints => items().map(taint).collect(),
        FlagKind::MemoryReservations => texts
            .iter()
            .flat_map(|text| text.split(';'))
            .filter(|item| !item.is_empty())
            .map(reservation)
            .collect(),
        FlagKind::VModule => items().map(vmodule).collect(),
    }
}

/// Accepts what Go's `strconv.ParseBool` accepts.
pub(super) fn boolean(text: &str) -> Result<bool, FlagValueError> {
    match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(false),
        _ => Err(FlagValueError::Bool(text.to_owned())),
    }
}

fn number(text: &str) -> Result<Value, FlagValueError> {
    let number = go_integer(text).and_then(|number| i64::try_from(number).ok());
    number.map(Value::from).ok_or_else(|| FlagValueError::Number(text.to_owned()))
}

fn split<'t>(item: &'t str, separator: &'static str) -> Result<(&'t str, &'t str), FlagValueError> {
    let (name, value) = item
        .split_once(separator)
        .ok_or_else(|| FlagValueError::Pair { item: item.to_owned(), separator })?;
    Ok((name.trim(), value.trim()))
}

fn pairs<'t>(
    items: impl Iterator<Item = &'t str>,
    separator: &'static str,
    read: fn(&str) -> Result<Value, FlagValueError>,
) -> Result<Value, FlagValueError> {
    let pair = |item| {
        let (name, value) = split(item, separator)?;
        Ok((name.to_owned(), read(value)?))
    };
    items.map(pair).collect::<Result<Map<_, _>, FlagValueError>>().map(Value::Object)
}

fn headers<'t>(items: impl Iterator<Item = &'t str>) -> Result<Value, FlagValueError> {
    let mut headers: Map<String, Value> = Map::new();
    for item in items {
        let (name, value) = split(item, ":")?;
        let values = headers.entry(name.to_owned()).or_insert_with(|| Value::Array(Vec::new()));
        if let Value::Array(values) = values {
            values.push(Value::from(value));
        }
    }
    Ok(Value::Object(headers))
}

fn taint(item: &str) -> Result<Value, FlagValueError> {
    let (taint, effect) = item.rsplit_once(':').ok_or_else(|| FlagValueError::Taint(item.to_owned()))?;
    let (key, value) = taint.split_once('=').unwrap_or((taint, ""));
    Ok(serde_json::json!({"key": key, "value": value, "effect": effect}))
}

fn reservation(item: &str) -> Result<Value, FlagValueError> {
    let (node, limits) = split(item, ":")?;
    let limits = pairs(limits.split(','), "=", |text| Ok(Value::from(text)))?;
    Ok(serde_json::json!({"numaNode": number(node)?, "limits": limits}))
}

fn vmodule(item: &str) -> Result<Value, FlagValueError> {
    let (pattern, verbosity) = split(item, "=")?;
    Ok(serde_json::json!({"filePattern": pattern, "verbosity": number(verbosity)?}))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::{FlagKind, FlagValueError, value};

    fn read(kind: FlagKind, texts: &[&str]) -> Result<Value, FlagValueError> {
        Ok(value(kind, &texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>())?.unwrap())
    }

    #[test]
    fn an_empty_address_or_reservation_leaves_the_field_as_it_is() {
        for kind in [FlagKind::Address, FlagKind::MemoryReservations] {
            assert_eq!(value(kind, &[String::new()]), Ok(None));
        }
        assert_eq!(read(FlagKind::Address, &["10.0.0.1", ""]), Ok(json!("10.0.0.1")));
        assert_eq!(read(FlagKind::Text, &["a", ""]), Ok(json!("")));
    }

    #[test]
    fn texts_are_parsed_into_the_values_of_a_file() {
        for (kind, texts, expected) in [
            (FlagKind::Bool, &["false", "T"][..], json!(true)),
            (FlagKind::Number, &["-999"], json!(-999)),
            (FlagKind::Number, &["0x6e"], json!(110)),
            (FlagKind::Text, &["1m", "2m"], json!("2m")),
            (FlagKind::List, &["a,b", "c"], json!(["a", "b", "c"])),
            (FlagKind::List, &[""], json!([])),
            (
                FlagKind::Map,
                &["cpu=1, memory=2Gi", "pid=5"],
                json!({"cpu": "1", "memory": "2Gi", "pid": "5"}),
            ),
            (FlagKind::Thresholds, &["memory.available<5%"], json!({"memory.available": "5%"})),
            (FlagKind::Gates, &["A=true,B=false"], json!({"A": true, "B": false})),
            (FlagKind::Headers, &["X:1,Y:2", "X:3"], json!({"X": ["1", "3"], "Y": ["2"]})),
            (
                FlagKind::Taints,
                &["replaced=:NoExecute", "a=b:NoSchedule,c:NoExecute"],
                json!([
                    {"key": "a", "value": "b", "effect": "NoSchedule"},
                    {"key": "c", "value": "", "effect": "NoExecute"},
                ]),
            ),
            (
                FlagKind::MemoryReservations,
                &["0:memory=1Gi,hugepages-1Gi=2Gi;1:memory=2Gi"],
                json!([
                    {"numaNode": 0, "limits": {"memory": "1Gi", "hugepages-1Gi": "2Gi"}},
                    {"numaNode": 1, "limits": {"memory": "2Gi"}},
                ]),
            ),
            (FlagKind::VModule, &["pod*=4"], json!([{"filePattern": "pod*", "verbosity": 4}])),
        ] {
            assert_eq!(read(kind, texts), Ok(expected), "{kind:?} {texts:?}");
        }
    }

    #[test]
    fn invalid_texts_are_quoted() {
        for (kind, text) in [
            (FlagKind::Bool, "maybe"),
            (FlagKind::Number, "1.5"),
            (FlagKind::Map, "cpu"),
            (FlagKind::Thresholds, "memory.available=5%"),
            (FlagKind::Gates, "A=on"),
            (FlagKind::Headers, "X"),
            (FlagKind::Taints, "a=b"),
            (FlagKind::MemoryReservations, "memory=1Gi"),
            (FlagKind::VModule, "pod*=high"),
        ] {
            assert!(read(kind, &[text]).is_err(), "{kind:?} {text}");
        }
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "\\PC*|[a=<:;,0-9]*") {
            for kind in [FlagKind::Taints, FlagKind::MemoryReservations, FlagKind::Headers, FlagKind::Gates] {
                let _ = value(kind, std::slice::from_ref(&text));
            }
        }
    }
}
