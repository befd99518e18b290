//! Resolves plain YAML scalars to JSON values by the rules of Kubernetes' YAML parser (sigs.k8s.io/yaml). Knows no
//! documents.

use serde_json::{Number, Value};

/// The value of an unquoted scalar. `None` for infinities and NaN, which JSON does not have.
pub(super) fn resolve(text: &str) -> Option<Value> {
    let value = match text {
        "" | "~" | "null" | "Null" | "NULL" => Value::Null,
        // YAML 1.1; Kubernetes still accepts these as booleans.
        "true" | "True" | "TRUE" | "y" | "Y" | "yes" | "Yes" | "YES" | "on" | "On" | "ON" => {
            Value::Bool(true)
        }
        "false" | "False" | "FALSE" | "n" | "N" | "no" | "No" | "NO" | "off" | "Off" | "OFF" => {
            Value::Bool(false)
        }
        ".inf" | ".Inf" | ".INF" | "+.inf" | "+.Inf" | "+.INF" | "-.inf" | "-.Inf" | "-.INF" | ".nan"
        | ".NaN" | ".NAN" => return None,
        _ => number(text).map_or_else(|| Value::String(text.to_owned()), Value::Number),
    };
    Some(value)
}

fn number(text: &str) -> Option<Number> {
    if !text.starts_with(|c: char| c.is_ascii_digit() || matches!(c, '+' | '-' | '.')) {
        return None;
    }
    let digits = text.replace('_', "");
    integer(&digits).or_else(|| float(&digits))
}

fn integer(text: &str) -> Option<Number> {
    let (negative, unsigned) = match text.strip_prefix(['-', '+']) {
        Some(rest) => (text.starts_with('-'), rest),
        None => (false, text),
    };
    let (radix, digits) = match unsigned.as_bytes() {
        [b'0', b'x' | b'X', ..] => (16, &unsigned[2..]),
        [b'0', b'o' | b'O', ..] => (8, &unsigned[2..]),
        [b'0', b'b' | b'B', ..] => (2, &unsigned[2..]),
        // YAML 1.1: a leading zero means octal.
        [b'0', _, ..] => (8, &unsigned[1..]),
        _ => (10, unsigned),
    };
    if digits.starts_with(['+', '-']) {
        return None;
    }
    let magnitude = u64::from_str_radix(digits, radix).ok()?;
    if negative {
        0_i64.checked_sub_unsigned(magnitude).map(Number::from)
    } else {
        Some(Number::from(magnitude))
    }
}

fn float(text: &str) -> Option<Number> {
    let is_numeric =
        text.bytes().all(|b| b.is_ascii_digit() || matches!(b, b'+' | b'-' | b'.' | b'e' | b'E'));
    let value: f64 = if is_numeric { text.parse().ok()? } else { return None };
    Number::from_f64(value)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::resolve;

    #[test]
    fn scalars_resolve_as_in_kubernetes() {
        for (text, value) in [
            ("", Value::Null),
            ("~", Value::Null),
            ("null", Value::Null),
            ("true", json!(true)),
            ("no", json!(false)),
            ("On", json!(true)),
            ("10250", json!(10250)),
            ("-999", json!(-999)),
            ("+7", json!(7)),
            ("0x1F", json!(31)),
            ("0644", json!(420)),
            ("0o17", json!(15)),
            ("0b101", json!(5)),
            ("1_000", json!(1000)),
            ("0", json!(0)),
            ("18446744073709551615", json!(u64::MAX)),
            ("-9223372036854775808", json!(i64::MIN)),
            ("0.9", json!(0.9)),
            ("1e3", json!(1000.0)),
            (".5", json!(0.5)),
            ("1.2.3", json!("1.2.3")),
            ("10.96.0.10", json!("10.96.0.10")),
            ("100Mi", json!("100Mi")),
            ("1m0s", json!("1m0s")),
            ("-", json!("-")),
            ("--5", json!("--5")),
            ("0x-5", json!("0x-5")),
            ("2026-01-02", json!("2026-01-02")),
            ("/var/log/pods", json!("/var/log/pods")),
        ] {
            assert_eq!(resolve(text), Some(value), "{text}");
        }
        assert_eq!(resolve(".inf"), None);
        assert_eq!(resolve(".NaN"), None);
    }
}
