//! The command line as a whole. The program parses it; the generator of man pages and completions reads it.

use clap::{Parser, Subcommand};

use super::{CompletionsArgs, ConfigCommand, ExplainArgs, ImagesArgs, LogsArgs, PodsArgs, TimelineArgs};
use crate::config::KubeletFlags;

/// A kubelet for Linux hosts. Without a command it runs as the daemon and accepts the kubelet's flags.
#[derive(Parser)]
#[command(name = "hostlet", args_conflicts_with_subcommands = true, disable_version_flag = true)]
pub struct Cli {
    /// The command; without one, the program is the daemon.
    #[command(subcommand)]
    pub command: Option<Command>,
    /// The daemon's flags.
    #[command(flatten)]
    pub flags: KubeletFlags,
}

/// A command.
#[derive(Subcommand)]
pub enum Command {
    /// Show the pods of this node
    Pods(PodsArgs),
    /// Explain the state of a pod or of the node, and what to do
    Explain(ExplainArgs),
    /// Show the steps of a pod and their durations
    Timeline(TimelineArgs),
    /// Print the log of a container
    Logs(LogsArgs),
    /// Show the images of the container runtime
    Images(ImagesArgs),
    /// Check or show a configuration
    #[command(subcommand)]
    Config(ConfigCommand),
    /// Print completions for a shell
    Completions(CompletionsArgs),
}
