//! The CSI drivers that are registered on this node: who they are, which instance of each serves, and what they say of the node.

mod handler;
mod shared;
mod state;
#[cfg(test)]
mod state_tests;
mod task;
#[cfg(test)]
mod task_tests;
mod versions;

pub use handler::CsiHandler;
pub use shared::NodeInfos;
pub use task::NodeInfoTask;
