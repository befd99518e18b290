//! What a check found.

use serde::{Deserialize, Serialize};

/// How good or bad a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Level {
    /// As it should be.
    Ok,
    /// Pods run, but not as well as they could, or not for long.
    Warning,
    /// Pods do not run, or hostlet does not start.
    Wrong,
    /// Could not be seen.
    Unknown,
}

/// One line of the report.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Finding {
    /// The name of the check.
    pub check: String,
    /// How good or bad it is.
    pub level: Level,
    /// What was looked at, and what was found.
    pub text: String,
    /// The command or the action that fixes it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remedy: Option<String>,
}

impl Finding {
    fn new(check: &str, level: Level, text: impl Into<String>) -> Self {
        Self { check: check.to_owned(), level, text: text.into(), remedy: None }
    }

    pub(super) fn ok(check: &str, text: impl Into<String>) -> Self {
        Self::new(check, Level::Ok, text)
    }

    pub(super) fn warning(check: &str, text: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { remedy: Some(remedy.into()), ..Self::new(check, Level::Warning, text) }
    }

    pub(super) fn wrong(check: &str, text: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { remedy: Some(remedy.into()), ..Self::new(check, Level::Wrong, text) }
    }

    pub(super) fn unknown(check: &str, text: impl Into<String>) -> Self {
        Self::new(check, Level::Unknown, text)
    }
}
