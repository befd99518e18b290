//! What the daemon serves to people and peers on this host.

mod control;
mod find;
mod images;
mod logs;
mod refusal;
mod view;

pub use control::{ControlError, ControlServer};
pub use logs::LogsQuery;
pub use view::{HungCall, ImageView, NodeView, Problem};

#[cfg(test)]
mod tests;
