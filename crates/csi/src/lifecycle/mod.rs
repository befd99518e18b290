//! The lifecycle of a volume on this node: attached, staged once, published for each pod, unpublished, unstaged. One worker per volume
//! performs one step at a time. Calls drivers only through [`crate::NodeService`].

mod adopt;
mod expanding;
#[cfg(test)]
mod expanding_tests;
#[cfg(test)]
mod history_tests;
mod layout;
mod node_size;
mod plan;
mod publishing;
mod record;
mod teardown;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
mod vol_data;
mod worker;

pub use adopt::{VolumesOnDisk, found_on_disk};
pub(crate) use adopt::{merged, stored};
pub(crate) use record::Record;
pub(crate) use worker::{Job, Shared, VolumeWorker};
