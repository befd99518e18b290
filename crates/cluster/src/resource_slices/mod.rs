//! Devices of DRA drivers of the old kind, which report them to the kubelet, as ResourceSlices of this node: the stream of each
//! driver, the translation of its messages, and the reconciler of the slices, which also deletes what drivers published that serve
//! no pod here. Never touches a slice that a registered driver published by itself, nor a pod.
//!
//! Upstream's kubelet did this in Kubernetes 1.30 (KEP-4381); later drivers publish by themselves. `docs/dra.md` has the mapping.

mod assign;
mod device;
mod dial;
mod driver;
mod encode;
mod handler;
mod legal;
mod metrics;
mod observed;
mod pace;
mod plan;
mod pool;
mod reconciler;
mod reporting;
mod settings;
mod shared;
mod slices;
mod stream;
mod task;
#[cfg(test)]
mod task_tests;
#[cfg(test)]
mod testing;
mod translate;

pub use device::{AttributeValue, Device, Inventory, Problems};
pub use handler::Dra;
pub use settings::DraSettings;
pub use task::DraTask;
pub use translate::translate;
