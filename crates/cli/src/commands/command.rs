//! The command line as a whole. The program parses it; the generator of man pages and completions reads it.

use clap::{Parser, Subcommand};
use hostlet_config::KubeletFlags;

use super::{
    ClaimsArgs, CompletionsArgs, ConfigCommand, DevicesArgs, DoctorArgs, EventsArgs, ExecArgs, ExplainArgs,
    ImagesArgs, LogsArgs, NodeArgs, PluginsArgs, PodsArgs, PurgeArgs, RestartArgs, TimelineArgs, TopArgs,
    VolumesArgs,
};

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
    /// Show what pods use and wait for, live in a terminal
    Top(TopArgs),
    /// Explain the state of a pod or of the node, and what to do
    Explain(ExplainArgs),
    /// Show the steps of a pod and their durations
    Timeline(TimelineArgs),
    /// Show what this node is, offers to pods, and its contact with the API server
    Node(NodeArgs),
    /// Show the recent events of pods and of the node
    Events(EventsArgs),
    /// Print the log of a container
    Logs(LogsArgs),
    /// Run a command in a container
    Exec(ExecArgs),
    /// Restart containers of a pod
    Restart(RestartArgs),
    /// Show the images of the container runtime
    Images(ImagesArgs),
    /// Show the plugins of this host, and why one cannot be used
    Plugins(PluginsArgs),
    /// Show the volumes of CSI drivers on this node, and what is done with them
    Volumes(VolumesArgs),
    /// Show the ResourceClaims of pods on this node, and what is done with them
    Claims(ClaimsArgs),
    /// Show the devices of device plugins on this node, and who has them
    Devices(DevicesArgs),
    /// Check this host, and get it ready
    Doctor(DoctorArgs),
    /// Remove hostlet's pods and files from this host
    Purge(PurgeArgs),
    /// Check or show a configuration
    #[command(subcommand)]
    Config(ConfigCommand),
    /// Print completions for a shell
    Completions(CompletionsArgs),
}
