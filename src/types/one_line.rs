//! Text from outside as it may stand in a message: on one line, without what moves a terminal's cursor, and not endless.

/// `text` with control characters escaped, cut after about `most` bytes; an ellipsis tells of the cut.
pub fn one_line(text: &str, most: usize) -> String {
    let mut line = String::new();
    for c in text.chars() {
        if line.len() >= most {
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
    fn what_breaks_a_line_is_escaped_and_the_rest_cut() {
        assert_eq!(one_line("a \"b\" é", 20), "a \"b\" é");
        assert_eq!(one_line("a\nb\u{1b}[2J\u{85}", 20), "a\\nb\\u{1b}[2J\\u{85}");
        assert_eq!(one_line("abcdef", 3), "abc…");
        assert_eq!(one_line("abc", 3), "abc");
    }
}
