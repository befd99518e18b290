//! Pods: where they come from, the worker that owns each, and what it does to containers.

mod activity;
pub mod admission;
mod board;
pub mod container;
mod crash_loop;
pub mod defaults;
mod dirs;
mod events;
pub mod explain;
mod gate;
mod identity;
mod janitor;
mod leftover_shims;
pub mod mirror;
mod pods_limit;
pub mod resources;
pub mod service_env;
pub mod source;
pub mod status;
pub mod status_manager;
mod stop_gate;
pub mod table;
#[cfg(test)]
pub(crate) mod testing;
pub mod timeline;
pub mod validation;
mod view;
pub mod worker;

pub use activity::{Activity, Doing};
pub use board::{StatusBoard, Told};
pub use crash_loop::CrashLoops;
pub use dirs::{PodDirError, pod_dirs, remove_pod_dir};
pub use events::PodEvents;
pub use gate::{StartGate, Turn};
pub use identity::{Rank, is_critical, is_static, pod_ref, pod_uid};
pub use janitor::HostJanitor;
pub use leftover_shims::LeftoverShims;
pub use pods_limit::PodsLimit;
pub use stop_gate::{StopGate, Stopping, Urgency};
