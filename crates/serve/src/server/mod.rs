//! The daemon's server for users and programs on this host.

mod connections;
mod control;
mod error;
mod events;
mod exec;
mod explain;
mod find;
mod http;
mod images;
mod logs;
mod node;
mod plugins;
mod pods;
mod pulls;
mod restart;
mod routes;
mod socket;
#[cfg(test)]
mod tests;
mod timeline;
mod usage;
mod view;

pub use control::ControlServer;
pub use events::EventsQuery;
pub use exec::{ExecQuery, ExecView};
pub use find::DEFAULT_CONTAINER;
pub use logs::LogsQuery;
pub use node::{ApiContact, NodeReport};
pub use restart::{RestartQuery, RestartView};
pub use socket::ControlError;
pub use timeline::TimelineView;
pub use usage::{PodUsedView, UsageView, UsedView};
pub use view::{CertificateView, HungCall, ImageView, NodeView, Problem, PullView, PullsView};
