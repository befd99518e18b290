//! What the daemon serves to people and peers on this host.

mod control;
mod view;

pub use control::{ControlError, ControlServer};
pub use view::{HungCall, NodeView, Problem};
