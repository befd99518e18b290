//! Go's formatting of strings, durations and floating-point numbers, for texts that clients parse.

use std::fmt::Write;
use std::time::Duration;

/// A string in Go's `%q` format: in double quotes, with quotes, backslashes and non-printable characters escaped.
pub fn go_quoted(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            '\u{7}' => quoted.push_str("\\a"),
            '\u{8}' => quoted.push_str("\\b"),
            '\u{b}' => quoted.push_str("\\v"),
            '\u{c}' => quoted.push_str("\\f"),
            '\n' => quoted.push_str("\\n"),
            '\r' => quoted.push_str("\\r"),
            '\t' => quoted.push_str("\\t"),
            ' '..='~' => quoted.push(c),
            '\0'..='\u{7f}' => push_escape(&mut quoted, "\\x", 2, c),
            // Rust and Go agree on printable characters, up to the version of Unicode.
            _ if c.escape_debug().len() == 1 => quoted.push(c),
            '\u{80}'..='\u{ffff}' => push_escape(&mut quoted, "\\u", 4, c),
            _ => push_escape(&mut quoted, "\\U", 8, c),
        }
    }
    quoted.push('"');
    quoted
}

fn push_escape(out: &mut String, prefix: &str, width: usize, c: char) {
    // Writing to a String cannot fail.
    let _ = write!(out, "{prefix}{:0width$x}", u32::from(c));
}

/// A duration in the format of Go's `Duration.String`, e.g. `1m20s`, `2.5s`, `350ms`.
pub fn go_duration(duration: Duration) -> String {
    let nanos = u128::from(duration.subsec_nanos());
    match duration.as_secs() {
        0 if nanos == 0 => "0s".to_owned(),
        0 if nanos < 1_000 => format!("{nanos}ns"),
        0 if nanos < 1_000_000 => format!("{}µs", decimal(nanos, 3)),
        0 => format!("{}ms", decimal(nanos, 6)),
        seconds => {
            let (minutes, rest) = (seconds / 60, u128::from(seconds % 60) * 1_000_000_000 + nanos);
            let rest = decimal(rest, 9);
            match (minutes / 60, minutes % 60) {
                (0, 0) => format!("{rest}s"),
                (0, minutes) => format!("{minutes}m{rest}s"),
                (hours, minutes) => format!("{hours}h{minutes}m{rest}s"),
            }
        }
    }
}

/// A number in Go's `%g` format, as Prometheus' text format has it: `0.005`, `10`, `4.194304e+06`, `+Inf`.
pub fn go_float(number: f64) -> String {
    if number.is_nan() {
        return "NaN".to_owned();
    }
    if number.is_infinite() {
        return if number > 0.0 { "+Inf" } else { "-Inf" }.to_owned();
    }
    // Both languages print the shortest digits that are read as the same number.
    general(&format!("{number:e}"), number.to_string())
}

/// An integer as Go's `strconv` reads it without a given base: `0x1f`, `0b11`, `0o17`, and a leading zero means octal.
pub fn go_integer(text: &str) -> Option<i128> {
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    let (radix, digits) = match unsigned.as_bytes() {
        [b'0', b'x' | b'X', ..] => (16, &unsigned[2..]),
        [b'0', b'o' | b'O', ..] => (8, &unsigned[2..]),
        [b'0', b'b' | b'B', ..] => (2, &unsigned[2..]),
        [b'0', _, ..] => (8, &unsigned[1..]),
        _ => (10, unsigned),
    };
    if digits.starts_with(['+', '-']) {
        return None;
    }
    let magnitude = i128::from_str_radix(digits, radix).ok()?;
    Some(if text.starts_with('-') { -magnitude } else { magnitude })
}

/// A finite number of single precision in Go's `%g` format.
pub(crate) fn go_float32(number: f32) -> String {
    general(&format!("{number:e}"), number.to_string())
}

/// The number in one of its two forms, by its exponent.
fn general(scientific: &str, plain: String) -> String {
    let exponent = scientific.split_once('e').and_then(|(digits, exponent)| {
        let exponent: i32 = exponent.parse().ok()?;
        (!(-4..6).contains(&exponent)).then_some((digits, exponent))
    });
    match exponent {
        Some((digits, exponent)) => {
            let sign = if exponent < 0 { '-' } else { '+' };
            format!("{digits}e{sign}{:02}", exponent.unsigned_abs())
        }
        None => plain,
    }
}

/// `value / 10^places`, without trailing zeros.
fn decimal(value: u128, places: usize) -> String {
    let one = 10u128.pow(places as u32);
    let fraction = format!("{:0places$}", value % one);
    match fraction.trim_end_matches('0') {
        "" => (value / one).to_string(),
        fraction => format!("{}.{fraction}", value / one),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_are_quoted_like_go() {
        for (text, quoted) in [
            ("busybox:1", r#""busybox:1""#),
            ("", r#""""#),
            ("a\"b\\c'd", r#""a\"b\\c'd""#),
            ("\n\t\r\u{7}\u{b}\0\u{1b}\u{7f}", r#""\n\t\r\a\v\x00\x1b\x7f""#),
            ("é☺", "\"é☺\""),
            ("\u{ad}\u{200b}\u{e0001}", r#""\u00ad\u200b\U000e0001""#),
        ] {
            assert_eq!(go_quoted(text), quoted);
        }
    }

    #[test]
    fn numbers_are_formatted_like_go() {
        for (number, text) in [
            (0.0, "0"),
            (-1.5, "-1.5"),
            (10.0, "10"),
            (0.005, "0.005"),
            (0.000_1, "0.0001"),
            (0.000_01, "1e-05"),
            (600_000.0, "600000"),
            (1e6, "1e+06"),
            (4_194_304.0, "4.194304e+06"),
            (1.892_139_589_783_516_2e9, "1.8921395897835162e+09"),
            (1e100, "1e+100"),
            (f64::INFINITY, "+Inf"),
            (f64::NEG_INFINITY, "-Inf"),
            (f64::NAN, "NaN"),
        ] {
            assert_eq!(go_float(number), text);
        }
    }

    #[test]
    fn integers_are_read_like_go() {
        for (text, number) in [
            ("110", Some(110)),
            ("+7", Some(7)),
            ("-999", Some(-999)),
            ("0", Some(0)),
            ("0110", Some(72)),
            ("-0x1F", Some(-31)),
            ("0o17", Some(15)),
            ("0b101", Some(5)),
            ("18446744073709551616", Some(1 << 64)),
            ("08", None),
            ("", None),
            ("-", None),
            ("--5", None),
            ("0x-5", None),
            ("1.5", None),
            ("5m", None),
        ] {
            assert_eq!(go_integer(text), number, "{text:?}");
        }
    }

    #[test]
    fn durations_are_formatted_like_go() {
        for (duration, text) in [
            (Duration::ZERO, "0s"),
            (Duration::from_nanos(7), "7ns"),
            (Duration::from_nanos(1_100), "1.1µs"),
            (Duration::from_millis(350), "350ms"),
            (Duration::from_micros(2_200), "2.2ms"),
            (Duration::from_millis(2_500), "2.5s"),
            (Duration::from_secs(10), "10s"),
            (Duration::from_secs(60), "1m0s"),
            (Duration::from_secs(80), "1m20s"),
            (Duration::from_millis(300_001), "5m0.001s"),
            (Duration::from_secs(3_600), "1h0m0s"),
        ] {
            assert_eq!(go_duration(duration), text);
        }
    }
}
