//! Durations in Go's format, as in configuration files and responses of plugins: `1m0s`, `100ms`, `1.5h`. No clock, no defaults.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use super::go_duration;

const SECOND: i64 = 1_000_000_000;
const MINUTE: i64 = 60 * SECOND;
const HOUR: i64 = 60 * MINUTE;

/// Units in the order in which Go documents them, in nanoseconds. Both code points of the micro sign are accepted.
const UNITS: [(&str, i64); 8] = [
    ("ns", 1),
    ("us", 1_000),
    ("µs", 1_000),
    ("μs", 1_000),
    ("ms", 1_000_000),
    ("s", SECOND),
    ("m", MINUTE),
    ("h", HOUR),
];

/// A signed number of nanoseconds, parsed as by Go's `time.ParseDuration` and formatted as by `time.Duration.String`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GoDuration(i64);

/// Why a text is not a duration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DurationError {
    /// It is not a sequence of numbers with units.
    #[error("{0:?} is not a duration; write a number with a unit, such as \"30s\", \"1m30s\" or \"100ms\"")]
    Format(String),
    /// It exceeds about 292 years.
    #[error("{0:?} is too long; a duration is at most about 292 years")]
    Range(String),
}

impl GoDuration {
    /// A duration of whole milliseconds.
    pub const fn from_millis(millis: i64) -> Self {
        Self(millis.saturating_mul(1_000_000))
    }

    /// A duration of whole seconds.
    pub const fn from_secs(seconds: i64) -> Self {
        Self(seconds.saturating_mul(SECOND))
    }

    /// A duration of nanoseconds.
    pub const fn from_nanos(nanos: i64) -> Self {
        Self(nanos)
    }

    /// Whether it is zero, which in a configuration file means "use the default".
    pub const fn is_zero(self) -> bool {
        self.0 == 0
    }

    /// Converts it to the standard library's type; `None` if it is negative.
    pub fn to_std(self) -> Option<Duration> {
        u64::try_from(self.0).ok().map(Duration::from_nanos)
    }
}

impl FromStr for GoDuration {
    type Err = DurationError;

    fn from_str(text: &str) -> Result<Self, DurationError> {
        let format = || DurationError::Format(text.to_owned());
        let range = || DurationError::Range(text.to_owned());
        let (negative, mut rest) = match text.as_bytes().first() {
            Some(b'-') => (true, &text[1..]),
            Some(b'+') => (false, &text[1..]),
            _ => (false, text),
        };
        if rest == "0" {
            return Ok(Self(0));
        }
        if rest.is_empty() {
            return Err(format());
        }
        // A magnitude of 2^63 is permitted if the sign makes it `i64::MIN`.
        let mut nanos: i128 = 0;
        while !rest.is_empty() {
            let number_end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').ok_or_else(format)?;
            let (number, tail) = rest.split_at(number_end);
            let unit_end = tail.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(tail.len());
            let (unit, tail) = tail.split_at(unit_end);
            let (_, length) = UNITS.iter().find(|(name, _)| *name == unit).ok_or_else(format)?;
            let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
            if (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') {
                return Err(format());
            }
            nanos += scaled(whole, fraction, *length).ok_or_else(range)?;
            if nanos > 1 << 63 {
                return Err(range());
            }
            rest = tail;
        }
        let signed = if negative { -nanos } else { nanos };
        i64::try_from(signed).map(Self).map_err(|_| range())
    }
}

/// `whole.fraction` times `unit`, rounded down to nanoseconds; `None` on overflow.
fn scaled(whole: &str, fraction: &str, unit: i64) -> Option<i128> {
    let whole: i128 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
    let mut nanos = whole.checked_mul(i128::from(unit))?;
    let mut place = i128::from(unit);
    // Digits after the fifteenth are below a nanosecond for every unit.
    let mut remainder: i128 = 0;
    let mut scale: i128 = 1;
    for digit in fraction.bytes().take(15) {
        remainder = remainder * 10 + i128::from(digit - b'0');
        scale *= 10;
    }
    place *= remainder;
    nanos = nanos.checked_add(place / scale)?;
    Some(nanos)
}

impl fmt::Display for GoDuration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = if self.0 < 0 { "-" } else { "" };
        write!(f, "{sign}{}", go_duration(Duration::from_nanos(self.0.unsigned_abs())))
    }
}

impl Serialize for GoDuration {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for GoDuration {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Text;

        impl de::Visitor<'_> for Text {
            type Value = GoDuration;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a duration such as \"1m30s\"")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<GoDuration, E> {
                text.parse().map_err(E::custom)
            }
        }

        deserializer.deserialize_str(Text)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;

    use super::{DurationError, GoDuration};

    fn parse(text: &str) -> Result<GoDuration, DurationError> {
        text.parse()
    }

    #[test]
    fn reads_what_go_reads() {
        for (text, nanos) in [
            ("0", 0),
            ("0s", 0),
            ("-0", 0),
            ("1m0s", 60_000_000_000),
            ("100ms", 100_000_000),
            ("1.5h", 5_400_000_000_000),
            (".5s", 500_000_000),
            ("1.s", 1_000_000_000),
            ("-2m30s", -150_000_000_000),
            ("+3us", 3_000),
            ("1µs1μs", 2_000),
            ("2h3m4s5ms6us7ns", 7_384_005_006_007),
            ("0.3333333333333333333h", 1_199_999_999_999),
            ("-9223372036854775808ns", i64::MIN),
        ] {
            assert_eq!(parse(text), Ok(GoDuration::from_nanos(nanos)), "{text}");
        }
    }

    #[test]
    fn rejects_what_go_rejects() {
        for text in ["", "-", "3", "1", "s", ".s", "1.2.3s", "1 s", "1d", "5 minutes", "1m-1s", "１s", "1h."]
        {
            assert!(matches!(parse(text), Err(DurationError::Format(_))), "{text}");
        }
        for text in ["9223372036854775808ns", "3000000h", "99999999999999999999999999999999999999999h"] {
            assert!(matches!(parse(text), Err(DurationError::Range(_))), "{text}");
        }
    }

    #[test]
    fn writes_what_go_writes() {
        for (nanos, text) in [
            (0, "0s"),
            (1, "1ns"),
            (1_500, "1.5µs"),
            (100_000_000, "100ms"),
            (1_000_000_000, "1s"),
            (1_050_000_000, "1.05s"),
            (60_000_000_000, "1m0s"),
            (14_400_000_000_000, "4h0m0s"),
            (-150_000_000_000, "-2m30s"),
        ] {
            assert_eq!(GoDuration::from_nanos(nanos).to_string(), text);
        }
    }

    #[test]
    fn a_negative_duration_has_no_standard_equivalent() {
        assert_eq!(GoDuration::from_secs(-1).to_std(), None);
        assert_eq!(GoDuration::from_millis(1500).to_std(), Some(Duration::from_millis(1500)));
    }

    proptest! {
        #[test]
        fn a_formatted_duration_parses_back(nanos: i64) {
            let duration = GoDuration::from_nanos(nanos);
            prop_assert_eq!(parse(&duration.to_string()), Ok(duration));
        }

        #[test]
        fn no_text_panics(text in "\\PC*|[-+0-9.hmsnuµ]*") {
            let _ = parse(&text);
        }
    }
}
