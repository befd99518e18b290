//! Rules that map an error message to a cause and a remedy, and the search for the first match. Pure.

/// Maps a message with these words to a cause.
#[derive(Debug, PartialEq, Eq)]
pub struct Rule {
    /// Lower-case words that must all occur in the message.
    words: &'static [&'static str],
    /// The cause, as a clause that follows "because".
    pub cause: &'static str,
    /// What the user can do.
    pub remedy: &'static str,
}

/// Lists of rules, in order of precedence.
pub type Group = &'static [&'static [Rule]];

/// The rule for messages with all of these lower-case words.
pub const fn rule(words: &'static [&'static str], cause: &'static str, remedy: &'static str) -> Rule {
    Rule { words, cause, remedy }
}

/// The first rule that matches.
pub fn find(group: Group, message: &str) -> Option<&'static Rule> {
    let message = message.to_lowercase();
    let fits = |rule: &&Rule| rule.words.iter().all(|word| message.contains(word));
    group.iter().copied().flatten().find(fits)
}
