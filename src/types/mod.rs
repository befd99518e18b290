//! Small shared types. No I/O.

mod backoff;
mod cgroup_driver;
mod clock;
mod conflated;
mod error_chain;
mod event;
mod go_text;
mod ids;
pub mod json;
mod labels;
pub(crate) mod names;
mod one_line;
mod platform;
mod pod_ref;
mod qos;
mod quantity;
mod quiet_period;
mod rescan;
pub mod resources;
mod size;
mod stop_signals;
#[cfg(test)]
pub(crate) mod testing;
mod timer;
pub(crate) mod watching;

pub use backoff::{Backoff, BackoffPolicy, Moment};
pub use cgroup_driver::CgroupDriver;
pub use clock::WallClock;
pub use conflated::Conflated;
pub use error_chain::error_chain;
pub use event::{EventKind, PodEvent};
pub use go_text::{go_duration, go_quoted};
pub use ids::{ContainerId, PodUid, SandboxId};
pub use labels::*;
pub use one_line::one_line;
pub use platform::{KUBERNETES_VERSION, architecture};
pub use pod_ref::PodRef;
pub use qos::QosClass;
pub use quantity::{Quantity, QuantityError};
pub use quiet_period::QuietPeriod;
pub use rescan::{Rescan, RescanRequester};
pub use resources::ResourceList;
pub use size::human_size;
pub use stop_signals::{STOP_SIGNALS, stop_signal_name, stop_signal_number};
pub use timer::sleep_until;
