//! The node's lease: the heartbeat that shows the cluster that this daemon is alive. It has its own task and client, so that
//! nothing that hangs elsewhere makes the node look dead.

mod spec;
mod task;
#[cfg(test)]
mod tests;

pub use task::LeaseTask;
