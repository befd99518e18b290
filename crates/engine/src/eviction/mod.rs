//! Evicts pods that use more local storage than they may, and pods that have to end because the node runs out of memory, disk or process
//! identifiers, as upstream's eviction manager does. Publishes the node's pressures. Requests kills; terminates no pod itself.

mod alarms;
#[cfg(test)]
mod bench;
mod evictor;
mod holders;
mod limits;
mod local_storage;
mod message;
mod metrics;
mod observer;
mod plan;
#[cfg(test)]
mod plan_tests;
mod pressure;
#[cfg(test)]
mod pressure_tests;
mod rank;
#[cfg(test)]
mod rank_tests;
mod reclaim;
mod relief;
#[cfg(test)]
mod relief_tests;
#[cfg(test)]
mod reports_tests;
mod task;
#[cfg(test)]
mod testing;
mod thresholds;
#[cfg(test)]
mod thresholds_tests;
#[cfg(any(test, feature = "fakes"))]
mod unobserved;
mod usage;

pub use alarms::{AlarmSettings, KernelAlarms, MemoryNotice};
pub use observer::{StatsObserver, volume_places};
pub(crate) use reclaim::{ReclaimError, Reclaimer, Reclaims};
pub(crate) use task::{Eviction, EvictionDeps, LimitedStorage};
#[cfg(any(test, feature = "fakes"))]
pub use unobserved::Unobserved;
pub use usage::{ContainerConsumption, DiskSpace, NodeObserver, PodConsumption, PodsConsumption};
