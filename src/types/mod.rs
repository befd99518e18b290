//! Small shared types. No I/O.

mod ids;
mod labels;
mod pod_ref;
mod qos;
mod quantity;

pub use ids::{ContainerId, PodUid, SandboxId};
pub use labels::*;
pub use pod_ref::PodRef;
pub use qos::QosClass;
pub use quantity::{Quantity, QuantityError};
