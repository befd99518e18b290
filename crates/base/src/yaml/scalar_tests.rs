//! Scalars and keys of YAML, resolved as in Kubernetes.

use serde_json::{Value, json};

use super::Scalar;

fn resolve(text: &str) -> Option<Value> {
    Scalar::resolve(text).into_value()
}

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
        ("1e3", json!(1000)),
        ("8e1", json!(80)),
        ("80.0", json!(80)),
        ("1.", json!(1)),
        ("08", json!(8)),
        ("01750", json!(1000)),
        ("-0b11", json!(-3)),
        ("9.3e18", json!(9_300_000_000_000_000_000_u64)),
        ("1234567890123456789.0", json!(1_234_567_890_123_456_800_i64)),
        ("1e21", json!(1e21)),
        ("1e-7", json!(1e-7)),
        ("+18446744073709551615", json!(18_446_744_073_709_552_000_f64)),
        ("18446744073709551616", json!(18_446_744_073_709_552_000_f64)),
        ("1e400", json!("1e400")),
        ("0o8", json!("0o8")),
        ("nO", json!("nO")),
        ("12:30", json!("12:30")),
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

/// What sigs.k8s.io/yaml 1.6.0 makes of these keys.
#[test]
fn keys_are_named_as_in_kubernetes() {
    let key = |text: &str| Scalar::resolve(text).into_key();
    for (text, name) in [
        ("yes", "true"),
        ("Off", "false"),
        ("1", "1"),
        ("1.5", "1.5"),
        ("010", "8"),
        ("1e3", "1000"),
        ("1e6", "1e+06"),
        ("123456.0", "123456"),
        ("1234567.0", "1.234567e+06"),
        ("16777217.0", "1.6777216e+07"),
        ("0.1", "0.1"),
        ("1e-5", "1e-05"),
        ("2024-01-01", "2024-01-01"),
        ("app.kubernetes.io/name", "app.kubernetes.io/name"),
        (".Inf", ".inf"),
        ("-.inf", "-.inf"),
        (".nan", ".nan"),
        ("1e300", ".inf"),
    ] {
        assert_eq!(key(text).as_deref(), Some(name), "{text}");
    }
    for text in ["", "~", "null", "18446744073709551615"] {
        assert_eq!(key(text), None, "{text}");
    }
}

#[test]
fn a_tag_decides_what_a_text_is() {
    let as_tagged = |tag, text| Scalar::resolve_as(tag, text).and_then(Scalar::into_value);
    assert_eq!(as_tagged("str", "5"), Some(json!("5")));
    assert_eq!(as_tagged("int", "5"), Some(json!(5)));
    assert_eq!(as_tagged("float", "5"), Some(json!(5)));
    assert_eq!(as_tagged("bool", "yes"), Some(json!(true)));
    assert_eq!(as_tagged("null", ""), Some(Value::Null));
    assert_eq!(as_tagged("int", "abc"), None);
    assert_eq!(as_tagged("int", "5.5"), None);
    assert_eq!(as_tagged("str", "~"), Some(json!("~")));
    assert_eq!(as_tagged("bool", "1"), None);
    assert_eq!(as_tagged("null", "a"), None);
    assert_eq!(as_tagged("binary", "aGVs\nbG8="), Some(json!("hello")));
    assert_eq!(as_tagged("binary", "/w=="), Some(json!("\u{fffd}")));
    assert_eq!(as_tagged("binary", "aGVsbG8"), None);
    assert_eq!(as_tagged("timestamp", "2001-12-14"), Some(json!("2001-12-14")));
    assert_eq!(as_tagged("timestamp", "tomorrow"), None);
    assert_eq!(as_tagged("timestamp", "5"), None);
    assert_eq!(as_tagged("set", "5"), Some(json!("5")));
}
