//! What the daemon serves to people and peers on this host.

mod control;
mod explain;
mod timeline;
mod view;

pub use control::{ControlError, ControlServer};
pub use timeline::TimelineView;
pub use view::{HungCall, NodeView, Problem};
