//! The subcommands a person types. They talk to the daemon only through its socket.

mod client;
mod exit;
mod pods;
mod table;

pub use client::ClientError;
pub use exit::Exit;
pub use pods::{PodsArgs, pods};
