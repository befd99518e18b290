//! Wildcard arms in matches on enums of hostlet: a variant that is added must be decided wherever variants are told apart, and `_` lets
//! the compiler forget that.
//!
//! Holds a match whose arms begin with a variant of an enum that is declared in these crates, or of `Self`, alone or in `Some`, `Ok` or
//! `Err`. Does not hold tuples, whose other parts may well need the wildcard, `matches!` and `if let`, which ask for one variant, and
//! enums that are declared elsewhere.

use std::collections::BTreeSet;

use crate::code::is_name;
use crate::rules::Source;

/// An enum and one of its variants.
type Variant<'s> = (&'s str, &'s str);

/// Every wildcard arm, as `path:line: what is wrong`.
pub(crate) fn wildcards(sources: &[Source]) -> Vec<String> {
    let variants: BTreeSet<Variant<'_>> = sources.iter().flat_map(|source| variants(&source.code)).collect();
    let of = |source: &Source| -> Vec<String> {
        let found = words(&source.code, "match").filter_map(|at| wildcard(&source.code, at, &variants));
        let line = |at: usize| source.code[..at].matches('\n').count() + 1;
        found
            .map(|at| {
                format!(
                    "{}:{}: a wildcard arm in a match on an enum of hostlet; name the variants",
                    source.path,
                    line(at)
                )
            })
            .collect()
    };
    sources.iter().flat_map(of).collect()
}

/// Where this word begins.
fn words<'c>(code: &'c str, word: &'c str) -> impl Iterator<Item = usize> + 'c {
    let is_word =
        move |at: usize| !code[..at].ends_with(is_name) && !code[at + word.len()..].starts_with(is_name);
    code.match_indices(word).map(|(at, _)| at).filter(move |at| is_word(*at))
}

/// The variants of the enums that are declared here.
fn variants(code: &str) -> impl Iterator<Item = Variant<'_>> {
    words(code, "enum").flat_map(|at| {
        let declared = code[at + "enum".len()..].trim_start();
        let (name, rest) = declared.split_at(declared.find(|c| !is_name(c)).unwrap_or(declared.len()));
        let body = level_end(rest, "{").map_or("", |start| &rest[start + 1..]);
        let mut body = &body[..level_end(body, "}").unwrap_or_default()];
        std::iter::from_fn(move || {
            // Attributes come before the name.
            while let Some(attribute) = body.trim_start().strip_prefix("#[") {
                body = &attribute[level_end(attribute, "]")? + 1..];
            }
            let whole = &body[..level_end(body, ",").unwrap_or(body.len())];
            body = body.get(whole.len() + 1..).unwrap_or_default();
            let variant = whole.trim_start();
            let variant = &variant[..variant.find(|c| !is_name(c)).unwrap_or(variant.len())];
            (!variant.is_empty()).then_some((name, variant))
        })
    })
}

/// Where the match that begins at `at` has a wildcard arm that it must not have.
fn wildcard(code: &str, at: usize, variants: &BTreeSet<Variant<'_>>) -> Option<usize> {
    let start = at + level_end(&code[at..], "{")? + 1;
    let (mut at, mut is_own, mut found) = (start, false, None);
    loop {
        at += code[at..].len() - code[at..].trim_start().len();
        if code[at..].is_empty() || code[at..].starts_with('}') {
            return found.filter(|_| is_own);
        }
        let arrow = level_end(&code[at..], "=>")?;
        let pattern = &code[at..at + arrow];
        if pattern.trim() == "_" {
            found = Some(at);
        }
        is_own |= alternatives(pattern).any(|pattern| is_variant(pattern, variants));
        at += arrow + "=>".len();
        at += code[at..].len() - code[at..].trim_start().len();
        if code[at..].starts_with('{') {
            at += level_end(&code[at + 1..], "}")? + 2;
        } else {
            at += level_end(&code[at..], ",").or_else(|| level_end(&code[at..], "}"))?;
        }
        at += code[at..].len() - code[at..].trim_start_matches(|c: char| c == ',' || c.is_whitespace()).len();
    }
}

/// Where `end` is outside of brackets that begin in this text. `None` if they are closed before.
fn level_end(text: &str, end: &str) -> Option<usize> {
    let mut depth = 0_usize;
    for (at, c) in text.char_indices() {
        if depth == 0 && text[at..].starts_with(end) {
            return Some(at);
        }
        match c {
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' => depth = depth.checked_sub(1)?,
            _ => {}
        }
    }
    None
}

/// The alternatives of a pattern, without its guard.
fn alternatives(pattern: &str) -> impl Iterator<Item = &str> {
    let guard = words(pattern, "if").next().unwrap_or(pattern.len());
    pattern[..guard].split('|').map(str::trim)
}

/// Whether a pattern is a variant of one of the enums.
fn is_variant(pattern: &str, variants: &BTreeSet<Variant<'_>>) -> bool {
    let pattern = pattern.trim_start_matches('&');
    if let Some(inner) = ["Some(", "Ok(", "Err("].iter().find_map(|wrapper| pattern.strip_prefix(wrapper)) {
        return is_variant(inner, variants);
    }
    let path = &pattern[..pattern.find(|c| !is_name(c) && c != ':').unwrap_or(pattern.len())];
    let mut names = path.rsplit("::");
    let (variant, name) = (names.next().unwrap_or_default(), names.next().unwrap_or_default());
    match name {
        "Self" => variants.iter().any(|(_, known)| *known == variant),
        _ => variants.contains(&(name, variant)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Vec<String> {
        let declared = "pub enum Color { Red, #[serde(rename = \"a\")] Green }\nenum Size<T> { Big(u8), Small { of: T } }\n";
        let sources = [
            Source::new("crates/a/src/a.rs", declared),
            Source::new("crates/b/src/b.rs", &format!("\n{text}")),
        ];
        wildcards(&sources)
    }

    #[test]
    fn wildcards_on_own_enums_are_found() {
        for text in [
            "match color { Color::Red => 1, _ => 2 }",
            "match color {\n    base::Color::Red | Color::Green => { f(); }\n    _ => {}\n}",
            "match &color { _ => 2, &Color::Red => 1 }",
            "match size { Size::Big(n) if n > 3 => g(a, b), Size::Big(_) => [1, 2], _ => 2 }",
            "match f(|x| { x }) { Some(Color::Red) => 1, Some(_) => 3, _ => 2 }",
            "match self { Self::Green => 1, _ => 2 }",
            "match size { Size::Small { of, .. } => 1, _ => 2 }",
            "match n { 1 => match color { Color::Red => 1, _ => 2 }, _ => 3 }",
            "match text { \"=> {\" => 0, _ => match color { Color::Red => 1, _ => 2 } }",
        ] {
            assert_eq!(found(text).len(), 1, "{text}");
        }
        let at = "crates/b/src/b.rs:4: a wildcard arm in a match on an enum of hostlet; name the variants";
        assert_eq!(found("match color {\n    Color::Red => 1,\n    _ => 2,\n}"), [at]);
    }

    #[test]
    fn other_matches_are_not_found() {
        for text in [
            "match color { Color::Red => 1, Color::Green => 2 }",
            "match color { Color::Red => 1, other => 2 }",
            "match n { 1 => Color::Red, _ => Color::Green }",
            "match kind { ErrorKind::NotFound => Color::Red, _ => { Color::Green } }",
            "match (color, n) { (Color::Red, 3) => 1, _ => 2 }",
            "match color { Color::Red => match n { 1 => 2, _ => 3 }, Color::Green => 2 }",
            // An enum of another crate with the same name.
            "match color { Color::Blue => 1, _ => 2 }",
            "match n { LEAST => 1, Color::LEAST => 2, _ => 3 }",
            "// match color { Color::Red => 1, _ => 2 }",
            "matches!(color, Color::Red)",
            "#[cfg(test)]\nmod tests { fn f() { match color { Color::Red => 1, _ => 2 } } }",
        ] {
            assert_eq!(found(text), Vec::<String>::new(), "{text}");
        }
    }
}
