//! The command line.

use clap::{Args, ValueEnum};

use crate::commands::client::DaemonArgs;
use crate::commands::objects::ObjectFormat;

/// The order of the pods.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum SortBy {
    /// Those that use the most CPU first.
    #[default]
    Cpu,
    /// Those that use the most memory first.
    Memory,
    /// Those that were restarted most often first.
    Restarts,
    /// By namespace and name.
    Name,
}

impl SortBy {
    /// In a sentence.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Cpu => "CPU",
            Self::Memory => "memory",
            Self::Restarts => "restarts",
            Self::Name => "name",
        }
    }
}

/// Arguments of `hostlet top`.
#[derive(Clone, Debug, Args)]
pub struct TopArgs {
    /// Order of the pods
    #[arg(long, value_enum, default_value_t)]
    pub sort_by: SortBy,
    /// Print objects, once
    #[arg(short, long, value_enum)]
    pub output: Option<ObjectFormat>,
    /// The daemon to ask
    #[command(flatten)]
    pub daemon: DaemonArgs,
}
