//! JSON in the format of Go's encoder, for texts that a stock kubelet reads or recomputes.

use serde::{Deserialize, Deserializer, Serialize};

/// Compact JSON with Go's HTML escapes.
pub fn go_json(value: &impl Serialize) -> Result<String, serde_json::Error> {
    let plain = serde_json::to_string(value)?;
    if !plain.contains(['<', '>', '&', '\u{2028}', '\u{2029}']) {
        return Ok(plain);
    }
    // JSON has these characters only in strings, so all of them can be replaced.
    Ok(plain
        .replace('<', "\\u003c")
        .replace('>', "\\u003e")
        .replace('&', "\\u0026")
        .replace('\u{2028}', "\\u2028")
        .replace('\u{2029}', "\\u2029"))
}

/// Reads `null`, which Go writes for a map or a list that was never made, as an empty one: for `#[serde(deserialize_with)]`.
pub fn null_as_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Default + Deserialize<'de>,
{
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_that_was_never_made_is_empty() {
        #[derive(Deserialize)]
        struct Made {
            #[serde(deserialize_with = "null_as_default")]
            list: Vec<u8>,
        }
        let list = |text: &str| serde_json::from_str::<Made>(text).unwrap().list;
        assert_eq!((list(r#"{"list":null}"#), list(r#"{"list":[1]}"#)), (vec![], vec![1]));
    }

    #[test]
    fn characters_of_html_are_escaped_as_go_does() {
        assert_eq!(go_json(&"a<b>&\u{2028}\"\n").unwrap(), r#""a\u003cb\u003e\u0026\u2028\"\n""#);
    }
}
