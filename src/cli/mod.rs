//! The subcommands a person types. They talk to the daemon only through its socket.

mod client;
mod config;
mod exit;
mod explain;
mod pods;
mod table;
mod timeline;

pub use client::ClientError;
pub use config::{CheckArgs, ConfigCommand, config};
pub use exit::Exit;
pub use explain::{AboutError, AboutOutput, ExplainArgs, explain};
pub use pods::{Output, PodsArgs, PodsError, pods};
pub use timeline::{TimelineArgs, timeline};
