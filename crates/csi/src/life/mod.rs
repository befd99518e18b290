//! The life of a volume on this node: waited for, staged once, published for each pod, taken back, forgotten. One owner per volume does
//! one thing at a time. Calls drivers only through [`crate::NodeService`].

mod adopt;
#[cfg(test)]
mod history_tests;
mod layout;
mod owner;
mod plan;
mod publishing;
mod record;
mod taking_back;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
mod vol_data;

pub use adopt::{FoundVolumes, found_on_disk};
pub(crate) use adopt::{merged, stored};
pub(crate) use owner::{Job, Owner, Shared};
pub(crate) use record::Record;
