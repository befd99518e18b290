//! Values that every crate may use: IDs, quantities, reasons, Go's text formats, strict reading of YAML and JSON, small async
//! primitives. No I/O.

mod age;
mod backoff;
pub mod causes;
mod cgroup_driver;
mod clock;
mod conflated;
mod duration;
mod error_chain;
mod event;
mod go_json;
mod go_text;
mod http_url;
mod ids;
mod image_reference;
pub mod json;
mod labels;
mod memory_qos;
pub mod names;
pub mod node;
mod one_line;
mod platform;
mod pod_ref;
mod qos;
mod quantity;
mod quiet_period;
pub mod reasons;
mod registry_location;
mod rescan;
pub mod resources;
pub mod settings;
mod size;
mod stop_signals;
#[cfg(any(test, feature = "fakes"))]
#[doc(hidden)]
pub mod testing;
mod timer;
pub mod watching;
pub mod yaml;

pub use age::human_duration;
pub use backoff::{Backoff, BackoffPolicy, Moment};
pub use cgroup_driver::CgroupDriver;
pub use clock::WallClock;
pub use conflated::Conflated;
pub use duration::{DurationError, GoDuration};
pub use error_chain::error_chain;
pub use event::{EventKind, PodEvent};
pub use go_json::go_json;
pub use go_text::{go_duration, go_float, go_integer, go_quoted};
pub use http_url::{HttpScheme, HttpUrl, LocationError, join_host_port};
pub use ids::{ContainerId, PodUid, SandboxId};
pub use image_reference::{ImageReference, ImageReferenceError, with_default_tag, without_tag};
pub use labels::*;
pub use memory_qos::{MemoryProtection, MemoryQos};
pub use one_line::one_line;
pub use platform::{KUBERNETES_VERSION, architecture};
pub use pod_ref::PodRef;
pub use qos::QosClass;
pub use quantity::{Quantity, QuantityError};
pub use quiet_period::QuietPeriod;
pub use registry_location::RegistryLocation;
pub use rescan::{Rescan, RescanRequester};
pub use resources::ResourceList;
pub use size::human_size;
pub use stop_signals::{STOP_SIGNALS, stop_signal_name, stop_signal_number};
pub use timer::sleep_until;
