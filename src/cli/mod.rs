//! The subcommands a person types. They talk to the daemon only through its socket.

mod client;
mod config;
mod exit;
mod pods;
mod table;

pub use client::ClientError;
pub use config::{CheckArgs, ConfigCommand, config};
pub use exit::Exit;
pub use pods::{Output, PodsArgs, PodsError, pods};
