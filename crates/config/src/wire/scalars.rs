//! Scalars with special decoding.

use std::fmt;

use serde::de::value::StrDeserializer;
use serde::{Deserialize, Deserializer, Serialize, de};

use hostlet_base::{GoDuration, Quantity};

/// Reads a field that is unset if its text is empty (Go's zero value).
pub(super) fn blank_is_unset<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    deserializer: D,
) -> Result<Option<T>, D::Error> {
    let text = String::deserialize(deserializer)?;
    if text.is_empty() {
        return Ok(None);
    }
    T::deserialize(StrDeserializer::new(&text)).map(Some)
}

/// Reads a duration that may also be a number of nanoseconds, as only the logging configuration allows.
pub(super) fn duration_or_nanos<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<GoDuration>, D::Error> {
    struct Either;

    impl de::Visitor<'_> for Either {
        type Value = GoDuration;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a duration such as \"5s\", or nanoseconds")
        }

        fn visit_str<E: de::Error>(self, text: &str) -> Result<GoDuration, E> {
            text.parse().map_err(E::custom)
        }

        fn visit_i64<E: de::Error>(self, nanos: i64) -> Result<GoDuration, E> {
            Ok(GoDuration::from_nanos(nanos))
        }

        fn visit_u64<E: de::Error>(self, nanos: u64) -> Result<GoDuration, E> {
            i64::try_from(nanos).map(GoDuration::from_nanos).map_err(E::custom)
        }
    }

    deserializer.deserialize_any(Either).map(Some)
}

/// A resource quantity as written: `10Mi`, or a bare number.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub(crate) struct QuantityText(String);

impl QuantityText {
    pub(crate) fn amount(&self) -> Option<Quantity> {
        Quantity::parse(&self.0).ok()
    }

    /// The quantity zero.
    pub(crate) fn zero() -> Self {
        Self("0".to_owned())
    }
}

impl<'de> Deserialize<'de> for QuantityText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Text;

        impl de::Visitor<'_> for Text {
            type Value = QuantityText;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a quantity such as \"10Mi\"")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<QuantityText, E> {
                Quantity::parse(text).map_err(E::custom)?;
                Ok(QuantityText(text.to_owned()))
            }

            fn visit_i64<E: de::Error>(self, number: i64) -> Result<QuantityText, E> {
                Ok(QuantityText(number.to_string()))
            }

            fn visit_u64<E: de::Error>(self, number: u64) -> Result<QuantityText, E> {
                Ok(QuantityText(number.to_string()))
            }

            fn visit_f64<E: de::Error>(self, number: f64) -> Result<QuantityText, E> {
                self.visit_str(&number.to_string())
            }
        }

        deserializer.deserialize_any(Text)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{from_value, json};

    use super::QuantityText;

    #[test]
    fn a_quantity_may_be_a_number_but_not_a_word() {
        for (value, text) in
            [(json!("10Mi"), "10Mi"), (json!(5), "5"), (json!(-5), "-5"), (json!(0.5), "0.5")]
        {
            assert_eq!(from_value::<QuantityText>(value).unwrap(), QuantityText(text.to_owned()));
        }
        assert!(from_value::<QuantityText>(json!("ten")).is_err());
        assert!(from_value::<QuantityText>(json!(true)).is_err());
        assert_eq!(QuantityText::zero().amount().unwrap(), hostlet_base::Quantity::parse("0").unwrap());
    }
}
