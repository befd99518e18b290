//! An in-memory container runtime that behaves like containerd as far as a kubelet can observe. For tests; never in the daemon.

mod calls;
mod clock;
mod containers;
mod control;
mod events;
mod exec;
mod faults;
mod history;
mod images;
mod lists;
mod restart;
mod runtime;
mod sandboxes;
mod script;
mod service;
mod view;
mod world;

pub use calls::RecordedCall;
pub use events::EventMode;
pub use exec::Exec;
pub use faults::{Failure, Fault, FaultPlan, Rule};
pub use history::{Happened, What};
pub use images::Pull;
pub use lists::SANDBOX_IMAGE;
pub use restart::Restart;
pub use runtime::FakeRuntime;
pub use script::{OnTerm, Run, Script};

#[cfg(test)]
mod tests;
