//! The subcommands. They use only the daemon's socket.

mod client;
mod command;
mod completions;
mod config;
mod error;
mod exit;
mod explain;
mod images;
mod logs;
mod pods;
mod pulls;
mod table;
mod timeline;
mod version;

pub use client::{ClientError, DaemonArgs};
pub use command::{Cli, Command};
pub use completions::{CompletionsArgs, Shell, completions};
pub use config::{CheckArgs, ConfigCommand, config};
pub use error::CommandError;
pub use exit::Exit;
pub use explain::{AboutOutput, ExplainArgs, explain};
pub use images::{ImagesArgs, ImagesOutput, images};
pub use logs::{LogsArgs, logs};
pub use pods::{Output, PodsArgs, pods};
pub use timeline::{TimelineArgs, timeline};
pub use version::version;
