//! The answer: what is so, since when, and what to do. Plain values that go over the control socket.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// How a pod fares, in a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Verdict {
    /// It runs as its manifest says.
    Fine,
    /// It ran to its end, and all went well.
    Completed,
    /// It is on its way: being started, or being ended as asked.
    UnderWay,
    /// Something keeps it from running as its manifest says.
    Wrong,
    /// There is no such pod.
    Unknown,
}

/// Why a pod is as it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Explanation {
    /// `namespace/name`; the name asked for where there is no such pod.
    pub pod: String,
    /// How it fares.
    pub verdict: Verdict,
    /// The cause, one sentence.
    pub sentence: String,
    /// The step it is at.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub step: Option<String>,
    /// Since when that is so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<Timestamp>,
    /// When hostlet tries again, or acts by itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<Timestamp>,
    /// What to do about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remedy: Option<String>,
    /// What else there is to know, a sentence each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub also: Vec<String>,
}

impl Explanation {
    /// An explanation of nothing but this; the rest is added by the functions below.
    pub(super) fn new(verdict: Verdict, sentence: impl Into<String>) -> Self {
        Self {
            pod: String::new(),
            verdict,
            sentence: one_line(&sentence.into()),
            step: None,
            since: None,
            next: None,
            remedy: None,
            also: Vec::new(),
        }
    }

    pub(super) fn wrong(sentence: impl Into<String>) -> Self {
        Self::new(Verdict::Wrong, sentence)
    }

    pub(super) fn under_way(sentence: impl Into<String>) -> Self {
        Self::new(Verdict::UnderWay, sentence)
    }

    pub(super) fn at(self, step: impl Into<String>) -> Self {
        Self { step: Some(step.into()), ..self }
    }

    pub(super) fn since(self, since: Option<Timestamp>) -> Self {
        Self { since, ..self }
    }

    pub(super) fn next(self, next: Option<Timestamp>) -> Self {
        Self { next, ..self }
    }

    pub(super) fn do_this(self, remedy: impl Into<String>) -> Self {
        Self { remedy: Some(remedy.into()), ..self }
    }
}

/// Messages of runtimes and programs span lines, and may hold what moves a terminal's cursor; a sentence does neither.
pub(super) fn one_line(text: &str) -> String {
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let lines: Vec<String> = lines.map(|line| crate::types::one_line(line, usize::MAX)).collect();
    lines.join(" ")
}
