//! Explains the state of a pod with a remedy that a newcomer can act on. Pure: facts and the time in, an explanation out.

mod case;
mod causes;
mod containers;
mod endings;
mod explanation;
mod images;
mod names;
mod offline;
mod pod;
mod pressure;
mod probes;
mod resize;
mod steps;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod waits_tests;
#[cfg(test)]
mod walk_tests;

pub(crate) use case::{Disposition, ExplainInput, HungCall, NodeProblem, PullSoFar};
pub use explanation::{Explanation, Verdict};
pub use names::{PodName, matches_pod_name};
pub(crate) use names::{nearest_names, not_read_yet, unknown};
pub(crate) use offline::stored_copies;
pub(crate) use pod::explain;
pub(crate) use pressure::pressure_sentences;
