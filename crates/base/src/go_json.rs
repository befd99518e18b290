//! JSON in the format of Go's encoder, for texts that a stock kubelet reads or recomputes.

use serde::Serialize;

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn characters_of_html_are_escaped_as_go_does() {
        assert_eq!(go_json(&"a<b>&\u{2028}\"\n").unwrap(), r#""a\u003cb\u003e\u0026\u2028\"\n""#);
    }
}
