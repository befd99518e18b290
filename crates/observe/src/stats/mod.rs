//! Measures what pods and the node use of this node's resources: CPU, memory, network and processes from the kernel's files
//! ([`UsageStats`]); filesystems, writable layers and logs ([`DiskStats`]); and volumes, at their own intervals ([`StorageStats`]). Only
//! what another module requests is measured; the usage of the volumes of claims is always measured. Makes no decisions.

mod accounting;
mod claims;
mod collect;
mod containers;
mod disk;
mod disk_task;
#[cfg(test)]
mod disk_task_tests;
mod drivers;
mod error;
mod handle;
#[cfg(test)]
mod handle_tests;
mod node_usage;
pub mod parse;
#[cfg(test)]
mod parse_tests;
mod places;
mod rates;
mod recent;
mod schedule;
#[cfg(test)]
mod schedule_tests;
mod settings;
mod signals;
mod storage;
mod task;
#[cfg(test)]
mod task_tests;
#[cfg(any(test, feature = "fakes"))]
#[doc(hidden)]
pub mod testing;
mod usage;

pub use disk::{ContainerDisk, DiskSettings, DiskUsage, ImageUsage, LayerUsage};
pub use disk_task::{DiskStats, DiskStatsTask};
#[cfg(any(test, feature = "fakes"))]
pub use drivers::no_drivers;
pub use drivers::{DriverAnswer, DriverStats, DriverStatsError};
pub use error::MeasureError;
pub use handle::UsageStats;
pub use node_usage::{
    ContainerUsage, NodeFilesystem, NodeUsage, PodUsage, SandboxUsage, TaskCount, UnitUsage,
};
pub use places::{PodPlaces, VolumePlace};
pub use settings::{StorageSettings, SystemPaths, UsageSettings};
pub use signals::{DiskLayout, Observation, SignalReader, SignalReport, SignalSettings};
pub use storage::{ContainerStorage, ContainersStorage, PodStorage, VolumeUsage};
pub use task::{StorageStats, StorageStatsTask};
pub use usage::{
    BlockDevice, CgroupProcesses, CgroupUsage, CpuUsage, Detail, DeviceIo, DiskActivity, IoUsage,
    MemoryUsage, NetworkDevice, OtherBytes, PressureAverages, PressureStall, UsageLimits,
};
