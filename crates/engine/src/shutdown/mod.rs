//! Graceful node shutdown (KEP-2000): delays a shutdown of the host through systemd-logind until this node's pods have
//! terminated, in groups by priority, and remembers which pods it ended. Requests kills; only lifecycles terminate pods.

mod bus;
mod delay;
mod files;
mod inhibitor;
mod link;
mod logind;
mod metrics;
mod periods;
mod record;
mod reports;
mod task;
#[cfg(test)]
pub(crate) mod testing;
mod view;

pub use bus::SystemBus;
pub use files::shutdown_files;
pub use logind::{InhibitLock, Logind, LogindError, LogindSession, SessionEvent};
pub use periods::ShutdownPeriods;
pub use reports::Reports;
pub(crate) use task::{Shutdown, ShutdownDeps};
pub use task::{ShutdownOutputs, ShutdownSettings};
pub use view::ShutdownView;
