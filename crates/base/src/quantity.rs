//! Kubernetes resource quantities: `100m`, `1Gi`, `1e3`, `0.5`. Exact, in billionths of a unit, never a float. Grammar and rounding
//! are those of apimachinery's `resource.Quantity`.

use std::cmp::Ordering;
use std::fmt;
use std::str::FromStr;

/// Billionths in one unit: the resolution of a quantity.
const NANOS: i128 = 1_000_000_000;
/// Magnitudes are capped at 64 bits, as upstream.
const MAX_NANOS: i128 = i64::MAX as i128 * NANOS;
/// Significant digits that fit 128 bits after multiplication by 2^60.
const MAX_DIGITS: usize = 19;

const BINARY: [(&str, u32); 6] = [("Ki", 10), ("Mi", 20), ("Gi", 30), ("Ti", 40), ("Pi", 50), ("Ei", 60)];
const DECIMAL: [(&str, i64); 10] =
    [("n", -9), ("u", -6), ("m", -3), ("", 0), ("k", 3), ("M", 6), ("G", 9), ("T", 12), ("P", 15), ("E", 18)];

/// Why a text is not a quantity. The wording is the API server's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum QuantityError {
    /// Not a number with a suffix.
    #[error("quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'")]
    Format,
    /// A number with an unknown suffix or exponent.
    #[error("unable to parse quantity's suffix")]
    Suffix,
}

/// The notation of a quantity, which is preserved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Notation {
    /// `500m`, `2k`.
    DecimalSi,
    /// `64Mi`.
    BinarySi,
    /// `1e3`.
    Exponent,
}

/// An amount of a resource: CPU cores, bytes, or a count. Compares by amount: `1Ki` equals `1024`.
#[derive(Debug, Clone, Copy)]
pub struct Quantity {
    nanos: i128,
    notation: Notation,
}

impl Quantity {
    /// Parses a quantity. Rounds to billionths away from zero; caps at 2^63-1.
    pub fn parse(text: &str) -> Result<Self, QuantityError> {
        let (negative, unsigned) = match text.as_bytes().first() {
            Some(b'-') => (true, &text[1..]),
            Some(b'+') => (false, &text[1..]),
            _ => (false, text),
        };
        let number_end = unsigned.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(unsigned.len());
        let (number, suffix) = unsigned.split_at(number_end);
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if fraction.contains('.') || (whole.is_empty() && fraction.is_empty()) {
            return Err(QuantityError::Format);
        }
        if !suffix.bytes().all(|b| b.is_ascii_digit() || b"eEinumkKMGTP+-".contains(&b)) {
            return Err(QuantityError::Format);
        }
        let scale = Scale::of(suffix)?;
        let digits = format!("{whole}{fraction}");
        let magnitude = scale.nanos(digits.trim_start_matches('0'), fraction.len());
        let nanos = if negative { -magnitude } else { magnitude };
        Ok(Self { nanos, notation: scale.notation(magnitude) })
    }

    /// A number of bytes, with exact binary suffixes.
    pub fn bytes(bytes: u64) -> Self {
        Self { nanos: (i128::from(bytes) * NANOS).min(MAX_NANOS), notation: Notation::BinarySi }
    }

    /// A count, with exact decimal suffixes.
    pub fn count(number: u64) -> Self {
        Self { nanos: (i128::from(number) * NANOS).min(MAX_NANOS), notation: Notation::DecimalSi }
    }

    /// Thousandths of a unit, e.g. millicores, with decimal suffixes.
    pub fn milli(thousandths: u64) -> Self {
        Self {
            nanos: (i128::from(thousandths) * (NANOS / 1000)).min(MAX_NANOS),
            notation: Notation::DecimalSi,
        }
    }

    /// Saturating subtraction; keeps this notation.
    #[must_use]
    pub fn less(self, other: Self) -> Self {
        Self { nanos: (self.nanos - other.nanos).max(0), ..self }
    }

    /// Addition; keeps this notation.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self { nanos: (self.nanos + other.nanos).min(MAX_NANOS), ..self }
    }

    /// Whole units, rounded away from zero: bytes of memory, a count.
    pub fn value(&self) -> i64 {
        self.rounded_to(NANOS)
    }

    /// Thousandths of a unit, rounded away from zero: millicores. Capped at the ends of `i64`.
    pub fn milli_value(&self) -> i64 {
        self.rounded_to(NANOS / 1000)
    }

    /// Whether the amount is below zero.
    pub fn is_negative(&self) -> bool {
        self.nanos < 0
    }

    /// Whether the amount is a whole number of units.
    pub fn is_whole(&self) -> bool {
        self.nanos % NANOS == 0
    }

    fn rounded_to(&self, unit: i128) -> i64 {
        let away = match self.nanos % unit {
            0 => 0,
            rest => rest.signum(),
        };
        let amount = self.nanos / unit + away;
        i64::try_from(amount).unwrap_or(if amount < 0 { i64::MIN } else { i64::MAX })
    }
}

/// The multiplier of a suffix.
#[derive(Debug, Clone, Copy)]
enum Scale {
    /// A power of two.
    Binary(u32),
    /// A power of ten, by suffix.
    Decimal(i64),
    /// A power of ten, by exponent.
    Exponent(i64),
}

impl Scale {
    fn of(suffix: &str) -> Result<Self, QuantityError> {
        if let Some((_, power)) = BINARY.iter().find(|(name, _)| *name == suffix) {
            return Ok(Self::Binary(*power));
        }
        if let Some((_, power)) = DECIMAL.iter().find(|(name, _)| *name == suffix) {
            return Ok(Self::Decimal(*power));
        }
        let exponent = suffix.strip_prefix(['e', 'E']).ok_or(QuantityError::Suffix)?;
        exponent.parse().map(Self::Exponent).map_err(|_| QuantityError::Suffix)
    }

    /// The amount in billionths of `digits` (no leading zeros), the last `decimals` of which are after the point.
    fn nanos(self, digits: &str, decimals: usize) -> i128 {
        let decimals = i64::try_from(decimals).unwrap_or(i64::MAX);
        match self {
            Self::Decimal(power) | Self::Exponent(power) => {
                shifted(digits, power.saturating_sub(decimals).saturating_add(9))
            }
            Self::Binary(power) => {
                let kept = digits.len().min(MAX_DIGITS);
                let dropped = i64::try_from(digits.len() - kept).unwrap_or(i64::MAX);
                let number: i128 = digits[..kept].parse().unwrap_or(0);
                let sticky = i128::from(digits[kept..].bytes().any(|b| b != b'0'));
                let product = (number + sticky) << power;
                shifted(&product.to_string(), dropped - decimals + 9)
            }
        }
    }

    fn notation(self, magnitude: i128) -> Notation {
        match self {
            // There is no binary suffix for less than one byte.
            Self::Binary(_) if magnitude > 0 && magnitude < NANOS => Notation::DecimalSi,
            Self::Binary(_) => Notation::BinarySi,
            Self::Decimal(_) => Notation::DecimalSi,
            Self::Exponent(_) => Notation::Exponent,
        }
    }
}

/// `digits` times ten to the power of `places`, rounded up, capped.
fn shifted(digits: &str, places: i64) -> i128 {
    let digits = digits.trim_start_matches('0');
    if digits.is_empty() {
        return 0;
    }
    let length = i64::try_from(digits.len()).unwrap_or(i64::MAX);
    let whole_digits = length.saturating_add(places);
    if whole_digits > 30 {
        return MAX_NANOS;
    }
    if places >= 0 {
        let zeros = u32::try_from(places).unwrap_or(0);
        let number: i128 = digits.parse().unwrap_or(MAX_NANOS);
        return number.saturating_mul(10_i128.saturating_pow(zeros)).min(MAX_NANOS);
    }
    let split = usize::try_from(whole_digits).unwrap_or(0);
    let whole: i128 = if split == 0 { 0 } else { digits[..split].parse().unwrap_or(MAX_NANOS) };
    let sticky = i128::from(digits[split..].bytes().any(|b| b != b'0'));
    (whole + sticky).min(MAX_NANOS)
}

impl FromStr for Quantity {
    type Err = QuantityError;

    fn from_str(text: &str) -> Result<Self, QuantityError> {
        Self::parse(text)
    }
}

impl fmt::Display for Quantity {
    /// The canonical form: no fraction, the largest exact suffix.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let small = self.nanos.abs() < 1024 * NANOS;
        match self.notation {
            Notation::BinarySi if !small && self.is_whole() => {
                let mut number = self.nanos / NANOS;
                let mut suffix = "";
                for (name, _) in BINARY {
                    if number % 1024 != 0 {
                        break;
                    }
                    number /= 1024;
                    suffix = name;
                }
                write!(f, "{number}{suffix}")
            }
            Notation::BinarySi | Notation::DecimalSi => {
                let (number, power) = thousands(self.nanos);
                let suffix = DECIMAL.iter().find(|(_, p)| *p == power).map_or("", |(name, _)| name);
                write!(f, "{number}{suffix}")
            }
            Notation::Exponent => match thousands(self.nanos) {
                (number, 0) => write!(f, "{number}"),
                (number, power) => write!(f, "{number}e{power}"),
            },
        }
    }
}

/// Splits billionths into a number without trailing groups of three zeros and a power of ten.
fn thousands(nanos: i128) -> (i128, i64) {
    if nanos == 0 {
        return (0, 0);
    }
    let (mut number, mut power) = (nanos, -9);
    while number % 1000 == 0 && power < 18 {
        number /= 1000;
        power += 3;
    }
    (number, power)
}

impl PartialEq for Quantity {
    fn eq(&self, other: &Self) -> bool {
        self.nanos == other.nanos
    }
}

impl Eq for Quantity {}

impl PartialOrd for Quantity {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Quantity {
    fn cmp(&self, other: &Self) -> Ordering {
        self.nanos.cmp(&other.nanos)
    }
}

#[cfg(test)]
#[path = "quantity_tests.rs"]
mod tests;
