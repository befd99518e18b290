//! One rule, and how the one that fits is found.

/// What a message with these words means.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::explain) struct Rule {
    /// In lower case; the message holds all of them.
    words: &'static [&'static str],
    /// Goes on after "because".
    pub(in crate::explain) cause: &'static str,
    /// For a newcomer.
    pub(in crate::explain) remedy: &'static str,
}

/// Lists of rules, in the order in which they are tried.
pub(in crate::explain) type Group = &'static [&'static [Rule]];

pub(super) const fn rule(words: &'static [&'static str], cause: &'static str, remedy: &'static str) -> Rule {
    Rule { words, cause, remedy }
}

/// The first rule that fits.
pub(in crate::explain) fn find(group: Group, message: &str) -> Option<&'static Rule> {
    let message = message.to_lowercase();
    let fits = |rule: &&Rule| rule.words.iter().all(|word| message.contains(word));
    group.iter().copied().flatten().find(fits)
}
