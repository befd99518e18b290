//! The daemon's server for users and programs on this host.

mod connections;
mod control;
mod error;
mod explain;
mod find;
mod healthz;
mod http;
mod images;
mod logs;
mod pulls;
#[cfg(test)]
mod tests;
mod timeline;
mod view;

pub use control::{ControlError, ControlServer};
pub use healthz::{Healthz, HealthzError};
pub use logs::LogsQuery;
pub use timeline::TimelineView;
pub use view::{CertificateView, HungCall, ImageView, NodeView, Problem, PullView, PullsView};
