//! What the service manager learns of the daemon (sd_notify(3)): that it is ready, reloads or stops, a status line, and that its
//! main loops are alive. Observes; never decides what happens because of it.

mod notifier;
mod status_line;
mod task;
#[cfg(test)]
mod task_tests;

pub use notifier::{Notifier, Notify};
pub use status_line::ConfigState;
pub use task::{StartDecision, Supervisor, SupervisorInputs};
