//! A rule, and the search for the first match.

/// Maps a message with these words to a cause.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::explain) struct Rule {
    /// Lower-case words that must all occur in the message.
    words: &'static [&'static str],
    /// The cause, as a clause that follows "because".
    pub(in crate::explain) cause: &'static str,
    /// What the user can do.
    pub(in crate::explain) remedy: &'static str,
}

/// Lists of rules, in order of precedence.
pub(in crate::explain) type Group = &'static [&'static [Rule]];

pub(super) const fn rule(words: &'static [&'static str], cause: &'static str, remedy: &'static str) -> Rule {
    Rule { words, cause, remedy }
}

/// The first rule that matches.
pub(in crate::explain) fn find(group: Group, message: &str) -> Option<&'static Rule> {
    let message = message.to_lowercase();
    let fits = |rule: &&Rule| rule.words.iter().all(|word| message.contains(word));
    group.iter().copied().flatten().find(fits)
}
