//! What is shown of shutdowns.

use jiff::Timestamp;

/// The state of shutdowns, for people.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ShutdownView {
    /// When the node began to shut down; `None` if it does not.
    pub since: Option<Timestamp>,
    /// Why a shutdown of the host would not wait for the pods, as a sentence without its period.
    pub problem: Option<String>,
}

impl ShutdownView {
    /// A sentence about the node, without its period; `None` if there is nothing to say.
    pub fn sentence(&self) -> Option<String> {
        match self.since {
            Some(since) => Some(format!(
                "the node has been shutting down since {since:.0}; its pods are being terminated"
            )),
            None => self.problem.clone(),
        }
    }
}
