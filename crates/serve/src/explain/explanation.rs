//! The explanation: the state, its start, and the remedy. Plain values sent over the control socket.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// The overall state of a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Verdict {
    /// It runs as specified.
    Fine,
    /// It completed successfully.
    Completed,
    /// It is being started, or being stopped on request.
    UnderWay,
    /// Something prevents it from running as specified.
    Wrong,
    /// There is no such pod.
    Unknown,
}

/// Why a pod is as it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Explanation {
    /// `namespace/name`, or the requested name if there is no such pod.
    pub pod: String,
    /// Its overall state.
    pub verdict: Verdict,
    /// The cause in one sentence.
    pub sentence: String,
    /// The current step.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub step: Option<String>,
    /// Start of this state.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<Timestamp>,
    /// When hostlet retries or acts next.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<Timestamp>,
    /// What the user can do.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remedy: Option<String>,
    /// Further information, one sentence each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub also: Vec<String>,
}

impl Explanation {
    /// An explanation with only a verdict and a sentence; the methods below add the rest.
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

/// Joins the lines of a message and removes terminal control characters.
pub(super) fn one_line(text: &str) -> String {
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let lines: Vec<String> = lines.map(|line| hostlet_base::one_line(line, usize::MAX)).collect();
    lines.join(" ")
}
