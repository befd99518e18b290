//! The node's lease: the heartbeat by which the cluster knows that this daemon lives. A task and a client of its own, so
//! that nothing that hangs elsewhere makes the node look dead.

mod spec;
mod task;
#[cfg(test)]
mod tests;

pub use task::LeaseTask;
