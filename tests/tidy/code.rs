//! Rust source as code only: comments and the contents of literals are blank, so that a search finds nothing in them. Keeps the position of every line.

/// The text with comments and the contents of literals replaced by spaces.
pub(crate) fn blank(text: &str) -> String {
    let chars: Vec<char> = text.chars().collect();
    let mut out = String::with_capacity(text.len());
    let mut at = 0;
    while at < chars.len() {
        let end = literal_end(&chars, at);
        for c in &chars[at..end.unwrap_or(at)] {
            out.push(if *c == '\n' { '\n' } else { ' ' });
        }
        if end.is_none() {
            out.push(chars[at]);
        }
        at = end.unwrap_or(at + 1);
    }
    out
}

/// Where the comment or literal that begins at `at` ends; `None` if none begins there.
fn literal_end(chars: &[char], at: usize) -> Option<usize> {
    let next = chars.get(at + 1).copied();
    let follows_name = at > 0 && is_name(chars[at - 1]);
    let after = |from: usize, is_end: &dyn Fn(usize) -> bool| {
        (from..chars.len()).find(|at| is_end(*at)).map_or(chars.len(), |end| end + 1)
    };
    match chars[at] {
        '/' if next == Some('/') => Some(after(at, &|at| chars[at] == '\n') - 1),
        '/' if next == Some('*') => Some(after(at + 3, &|at| chars[at] == '/' && chars[at - 1] == '*')),
        '"' => Some(quoted_end(chars, at, '"')),
        'r' if !follows_name || chars[at - 1] == 'b' => {
            let hashes = chars[at + 1..].iter().take_while(|c| **c == '#').count();
            let open = at + 1 + hashes;
            let closes = |at: usize| {
                chars[at] == '#'
                    && chars[..at].iter().rev().take_while(|c| **c == '#').count() + 1 == hashes
                    && chars[at - hashes] == '"'
                    || hashes == 0 && chars[at] == '"'
            };
            (chars.get(open) == Some(&'"')).then(|| after(open + 1, &closes))
        }
        // Otherwise a lifetime.
        '\'' if next == Some('\\') || chars.get(at + 2) == Some(&'\'') => Some(quoted_end(chars, at, '\'')),
        _ => None,
    }
}

/// The end of a literal in these quotes, with escapes.
fn quoted_end(chars: &[char], start: usize, quote: char) -> usize {
    let mut at = start + 1;
    while at < chars.len() && chars[at] != quote {
        at += if chars[at] == '\\' { 2 } else { 1 };
    }
    (at + 1).min(chars.len())
}

/// Whether a name may contain this character.
pub(crate) fn is_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_code_remains() {
        for (text, code) in [
            ("a // b\nc", "a     \nc"),
            ("a /* b\n */ c", "a     \n    c"),
            ("f(\"b \\\" c\") d", "f(        ) d"),
            ("f(r#\"b \" c\"#) d", "f(          ) d"),
            ("f(br\"b\\\") d", "f(b     ) d"),
            ("let c = '{'; x", "let c =    ; x"),
            ("let c = '\\''; x", "let c =     ; x"),
            ("f::<'a>(x: &'a T)", "f::<'a>(x: &'a T)"),
            ("\"https://x\" y", "            y"),
            ("for r in her", "for r in her"),
        ] {
            assert_eq!(blank(text), code, "{text}");
        }
    }
}
