//! Quantities: exact amounts, canonical form, order, and what is rejected.

use proptest::prelude::*;

use super::{Quantity, QuantityError};

fn quantity(text: &str) -> Quantity {
    Quantity::parse(text).unwrap()
}

#[test]
fn amounts_are_exact() {
    for (text, milli) in [
        ("0", 0),
        ("100m", 100),
        ("0.5", 500),
        (".5", 500),
        ("5.", 5_000),
        ("+1", 1_000),
        ("-1", -1_000),
        ("1e3", 1_000_000),
        ("1E3", 1_000_000),
        ("1e-3", 1),
        ("1E", 1_000_000_000_000_000_000_i64.saturating_mul(1000)),
        ("2k", 2_000_000),
        ("1Ki", 1_024_000),
        ("1.5Gi", 1_610_612_736_000),
        ("0.1m", 1),
        ("1u", 1),
        ("1n", 1),
        ("-0.1m", -1),
        ("0e9999", 0),
        ("1e9999", i64::MAX),
        ("-1e9999", i64::MIN),
    ] {
        assert_eq!(quantity(text).milli_value(), milli, "{text}");
    }
    assert_eq!(quantity("1.5").value(), 2);
    assert_eq!(quantity("-1.5").value(), -2);
    assert_eq!(quantity("9223372036854775807").value(), i64::MAX);
    assert_eq!(quantity("100Ei").value(), i64::MAX);
    assert_eq!(quantity("0.0000000001Gi").milli_value(), 108);
}

#[test]
fn invalid_quantities_are_rejected() {
    for text in ["", "-", ".", "+.", "1.1.1", "Mi", "a1", "1 Gi", " 1", "1Gi ", "0x10", "1,5", "½", "1°"] {
        assert_eq!(Quantity::parse(text), Err(QuantityError::Format), "{text:?}");
    }
    for text in ["1i", "1mi", "1KI", "1K", "1e", "1e1.5", "1em", "1e3m", "1e99999999999999999999", "1-1"] {
        assert!(Quantity::parse(text).is_err(), "{text:?}");
    }
}

#[test]
fn canonical_form_is_upstreams() {
    for (text, canonical) in [
        ("0", "0"),
        ("0Gi", "0"),
        ("1.5", "1500m"),
        ("1500m", "1500m"),
        ("1000m", "1"),
        ("1.5Gi", "1536Mi"),
        ("1024Mi", "1Gi"),
        ("1023", "1023"),
        ("512Ki", "512Ki"),
        ("0.5Ki", "512"),
        ("1.0001Ki", "1024102400u"),
        ("1000", "1k"),
        ("1e3", "1e3"),
        ("10e3", "10e3"),
        ("1e-3", "1e-3"),
        ("100e-2", "1"),
        ("-64Mi", "-64Mi"),
        ("0.1n", "1n"),
    ] {
        assert_eq!(quantity(text).to_string(), canonical, "{text}");
    }
}

#[test]
fn conversion_and_subtraction() {
    assert_eq!(Quantity::bytes(24_684_096 << 10).to_string(), "24684096Ki");
    assert_eq!(Quantity::bytes(0).to_string(), "0");
    assert_eq!(Quantity::milli(1_500).to_string(), "1500m");
    assert_eq!(Quantity::milli(1_000_000).to_string(), "1k");
    assert_eq!(Quantity::bytes(1 << 30).less(quantity("100M")).to_string(), "973741824");
    assert_eq!(quantity("1").less(quantity("2")).to_string(), "0");
}

#[test]
fn order_is_by_amount() {
    assert_eq!(quantity("1Ki"), quantity("1024"));
    assert!(quantity("1G") < quantity("1Gi"));
    assert!(quantity("-1") < quantity("0"));
    assert!(quantity("999m") < quantity("1"));
}

proptest! {
    #[test]
    fn formatting_and_parsing_keeps_the_amount(
        number in -9_000_000_000_i64..9_000_000_000,
        decimals in proptest::option::of(0_u32..1_000_000_000),
        suffix in proptest::sample::select(vec!["", "n", "u", "m", "k", "M", "G", "Ki", "Mi", "Gi", "e3", "E-2"]),
    ) {
        let text = match decimals {
            Some(decimals) => format!("{number}.{decimals}{suffix}"),
            None => format!("{number}{suffix}"),
        };
        let first = quantity(&text);
        let again = quantity(&first.to_string());
        prop_assert_eq!(first, again);
        prop_assert_eq!(first.to_string(), again.to_string());
    }

    #[test]
    fn rounding_never_decreases(milli in -1_000_000_000_i64..1_000_000_000) {
        let value = quantity(&format!("{milli}m")).value();
        prop_assert!(value.abs() * 1000 >= milli.abs() && (value.abs() - 1) * 1000 < milli.abs().max(1));
    }

    #[test]
    fn order_is_that_of_the_integers(a in any::<i32>(), b in any::<i32>()) {
        prop_assert_eq!(quantity(&a.to_string()).cmp(&quantity(&b.to_string())), a.cmp(&b));
    }

    #[test]
    fn any_text_is_handled(text in "\\PC{0,40}") {
        let _ = Quantity::parse(&text);
    }

    #[test]
    fn near_quantities_are_handled(text in "[-+]?[0-9.]{0,60}[eEinumkKMGTP0-9+-]{0,6}") {
        if let Ok(parsed) = Quantity::parse(&text) {
            prop_assert_eq!(parsed, quantity(&parsed.to_string()));
        }
    }
}
