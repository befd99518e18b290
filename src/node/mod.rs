//! The node as an object of a cluster: registered, its status told, its lease renewed. Never touches a pod.

mod event;
mod facts;
mod health;
mod inputs;
mod lease;
mod observe;
mod own;
mod pace;
mod register;
mod request;
mod settings;
mod status;
mod task;
#[cfg(test)]
mod task_tests;
#[cfg(test)]
mod testing;

pub use event::{NodeEvent, NodeEvents};
pub use facts::{Facts, HostFacts, RuntimeFacts};
pub use inputs::Inputs;
pub use lease::LeaseTask;
pub use observe::{HostObserver, observe_runtime};
pub use own::OwnNode;
pub use settings::Settings;
pub use status::{Unreserved, overdrawn};
pub use task::StatusTask;
