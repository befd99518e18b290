//! What pods use of this node's resources, measured for the rooms that ask: so far the disk space of writable layers, logs and volumes.
//! A measurement is bounded by its room's own pace, never by a caller's. Decides nothing because of it.

mod containers;
mod error;
mod places;
mod schedule;
#[cfg(test)]
mod schedule_tests;
mod storage;
mod task;
#[cfg(test)]
mod task_tests;

pub use error::MeasureError;
pub use places::{PodPlaces, VolumePlace};
pub use storage::{ContainerStorage, ContainersStorage, PodStorage};
pub use task::{StorageSettings, StorageStats, StorageStatsTask};
