//! Why a pod is as it is, in words a newcomer can act on. Pure: facts and the time in, an explanation out.

mod case;
mod causes;
mod containers;
mod endings;
mod explanation;
mod images;
mod life;
mod names;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod walk_tests;

pub use case::{Case, HungCall, PullSoFar, Standing, Trouble};
pub use explanation::{Explanation, Verdict};
pub use life::explain;
pub use names::{Named, is_meant, nearest_names, unknown};
