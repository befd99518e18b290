//! The node as an object of a cluster: registered, its status told, its lease renewed. Never touches a pod.

mod addresses;
mod event;
mod facts;
mod health;
mod inputs;
mod lease;
mod observe;
mod own;
mod pace;
mod pressure;
mod register;
mod request;
mod settings;
mod sight;
mod status;
mod task;
#[cfg(test)]
mod task_tests;
#[cfg(test)]
pub(crate) mod testing;

pub use addresses::NodeAddresses;
pub use event::{NodeEvent, NodeEvents};
pub use facts::{Facts, HostFacts, RuntimeFacts};
pub use inputs::Inputs;
pub use lease::LeaseTask;
pub use observe::{AddressObserver, HostObserver, observe_runtime};
pub use own::{OwnNode, OwnNodeWatch};
pub use pressure::{Pressure, Pressures};
pub use settings::Settings;
pub use sight::{NodeReader, NodeSight, watch_node};
pub use status::overdrawn;
pub use task::StatusTask;
