//! Why a plugin is not registered, in words for its author and for the administrator of the node.

use std::path::PathBuf;

use super::client::CallError;
use super::handler::PluginRejected;
use super::info::InfoError;

/// Why an attempt to register a plugin failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum Failure {
    /// It could not be called.
    #[error(transparent)]
    Call(#[from] CallError),
    /// What it says about itself cannot be used.
    #[error(transparent)]
    Info(#[from] InfoError),
    /// Nothing here uses plugins of its type. Begins as upstream's message.
    #[error(
        "no handler registered for plugin type: {plugin_type} at socket {}; {}",
        socket.display(), supported(types)
    )]
    NoHandler {
        plugin_type: String,
        /// The registration socket.
        socket: PathBuf,
        /// The supported types.
        types: Vec<&'static str>,
    },
    /// The handler of its type does not accept it.
    #[error(transparent)]
    Rejected(#[from] PluginRejected),
}

/// What kind of failure it is, for metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum FailureKind {
    /// The plugin could not be called.
    Unreachable,
    /// The plugin was called, and rejected.
    Rejected,
    /// Plugins of its type are not supported.
    Unsupported,
}

impl Failure {
    pub(super) fn kind(&self) -> FailureKind {
        match self {
            Self::Call(_) => FailureKind::Unreachable,
            Self::Info(_) | Self::Rejected(_) => FailureKind::Rejected,
            Self::NoHandler { .. } => FailureKind::Unsupported,
        }
    }

    /// Whether the plugin may just be starting.
    pub(super) fn may_be_early(&self) -> bool {
        match self {
            Self::Call(error) => error.may_be_early(),
            Self::Info(InfoError::NoEndpoint { .. }) => true,
            Self::Info(
                InfoError::Empty { .. }
                | InfoError::TooLong { .. }
                | InfoError::TooManyVersions { .. }
                | InfoError::Illegal { .. }
                | InfoError::NotAbsolute { .. }
                | InfoError::NotASocket(_),
            )
            | Self::NoHandler { .. }
            | Self::Rejected(_) => false,
        }
    }
}

fn supported(types: &[&str]) -> String {
    match types {
        [] => "hostlet does not support plugins of any type yet".to_owned(),
        types => format!("hostlet supports {}", types.join(", ")),
    }
}
