//! Sanitizes external text for messages: one line, without terminal control characters, limited in length.

/// Escapes control characters in `text` and truncates it after about `max_bytes` bytes, with an ellipsis.
pub fn one_line(text: &str, max_bytes: usize) -> String {
    let mut line = String::new();
    for c in text.chars() {
        if line.len() >= max_bytes {
            line.push('…');
            break;
        }
        if c.is_control() {
            line.extend(c.escape_default());
        } else {
            line.push(c);
        }
    }
    line
}

#[cfg(test)]
mod tests {
    use super::one_line;

    #[test]
    fn control_characters_are_escaped_and_long_text_is_truncated() {
        assert_eq!(one_line("a \"b\" é", 20), "a \"b\" é");
        assert_eq!(one_line("a\nb\u{1b}[2J\u{85}", 20), "a\\nb\\u{1b}[2J\\u{85}");
        assert_eq!(one_line("abcdef", 3), "abc…");
        assert_eq!(one_line("abc", 3), "abc");
    }
}
