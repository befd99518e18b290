//! Expands `$(NAME)` references in environment values, commands and arguments. Pure; never fails: anything else, and references
//! to unknown names, are unchanged (Kubernetes docs, "Define Dependent Environment Variables").

/// Replaces each `$(NAME)` by the result of `lookup`. `$$` is a literal `$`, so `$$(NAME)` yields `$(NAME)`. Not recursive.
pub(crate) fn expand<'v>(text: &str, lookup: impl Fn(&str) -> Option<&'v str>) -> String {
    let expanded = expand_bytes(text, |name| lookup(name).map(str::as_bytes));
    // Nothing is lost: all parts of it are text.
    String::from_utf8_lossy(&expanded).into_owned()
}

/// The same with values that may be no text.
pub(super) fn expand_bytes<'v>(text: &str, lookup: impl Fn(&str) -> Option<&'v [u8]>) -> Vec<u8> {
    let mut expanded = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some(dollar) = rest.find('$') {
        expanded.extend_from_slice(&rest.as_bytes()[..dollar]);
        let after = &rest[dollar + 1..];
        rest = if let Some(escaped) = after.strip_prefix('$') {
            expanded.push(b'$');
            escaped
        } else if let Some((name, tail)) = after.strip_prefix('(').and_then(|open| open.split_once(')')) {
            match lookup(name) {
                Some(value) => expanded.extend_from_slice(value),
                None => expanded.extend_from_slice(format!("$({name})").as_bytes()),
            }
            tail
        } else {
            expanded.push(b'$');
            after
        };
    }
    expanded.extend_from_slice(rest.as_bytes());
    expanded
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn with_vars(text: &str) -> String {
        expand(text, |name| match name {
            "A" => Some("one"),
            "EMPTY" => Some(""),
            "REF" => Some("$(A)"),
            _ => None,
        })
    }

    #[test]
    fn references_escapes_and_leftovers() {
        for (text, expanded) in [
            ("$(A)", "one"),
            ("x$(A)$(A)y", "xoneoney"),
            ("$(EMPTY)", ""),
            ("$(REF)", "$(A)"),
            ("$(NOPE)", "$(NOPE)"),
            ("$()", "$()"),
            ("$$(A)", "$(A)"),
            ("$$$(A)", "$one"),
            ("$$$$(A)", "$$(A)"),
            ("$A", "$A"),
            ("$", "$"),
            ("$$", "$"),
            ("$(A", "$(A"),
            ("$($(A)", "$($(A)"),
            ("a$é$(A)", "a$éone"),
            ("${A} $[A] %(A)", "${A} $[A] %(A)"),
        ] {
            assert_eq!(with_vars(text), expanded, "{text}");
        }
    }

    proptest! {
        #[test]
        fn text_without_dollar_is_unchanged(text in "[^$]*") {
            prop_assert_eq!(with_vars(&text), text);
        }

        #[test]
        fn expansion_of_resolved_text_is_idempotent(text in "([^$]|\\$\\((A|EMPTY)\\))*") {
            let once = with_vars(&text);
            prop_assert_eq!(with_vars(&once), once);
        }

        #[test]
        fn any_text_can_be_expanded(text in ".*", value in ".*") {
            let expanded = expand(&text, |_| Some(&value));
            prop_assert!(expanded.len() <= text.len() + value.len() * text.matches("$(").count());
        }
    }
}
