//! The daemon's server for users and programs on this host.

mod connections;
mod control;
mod error;
mod explain;
mod find;
mod http;
mod images;
mod logs;
mod pulls;
#[cfg(test)]
mod tests;
mod timeline;
mod view;

pub use control::{ControlError, ControlServer};
pub use logs::LogsQuery;
pub use timeline::TimelineView;
pub use view::{HungCall, ImageView, NodeView, Problem, PullView, PullsView};
