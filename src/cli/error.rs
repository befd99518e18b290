//! Errors of commands.

use std::io;

use super::client::ClientError;
use super::exit::Exit;
use super::service_flags::ServiceFlagsError;
use crate::config::ConfigErrors;
use crate::streaming::{StreamUrlError, StreamingError};

/// Why a command failed.
#[derive(Debug, thiserror::Error)]
pub enum CommandError {
    /// The request failed.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// The output could not be written.
    #[error("cannot write the output")]
    Write(#[from] io::Error),
    /// Not even the defaults are a configuration.
    #[error(transparent)]
    Config(#[from] ConfigErrors),
    /// The flags of the service cannot be known.
    #[error(transparent)]
    ServiceFlags(#[from] ServiceFlagsError),
    /// The command in the container could not be run.
    #[error("{0}")]
    Exec(String),
    /// The daemon named no server for the command.
    #[error(transparent)]
    Url(#[from] StreamUrlError),
    /// The session with the command failed.
    #[error(transparent)]
    Streaming(#[from] StreamingError),
    /// The objects could not be written.
    #[error("cannot write the output as JSON")]
    Json(#[from] serde_json::Error),
    /// The objects could not be written.
    #[error("cannot write the output as YAML")]
    Yaml(#[from] serde_saphyr::ser::Error),
}

impl CommandError {
    /// The exit code.
    pub fn exit(&self) -> Exit {
        match self {
            Self::Client(error) => error.exit(),
            Self::Config(_) | Self::ServiceFlags(_) => Exit::Usage,
            Self::Exec(_)
            | Self::Url(_)
            | Self::Streaming(_)
            | Self::Write(_)
            | Self::Json(_)
            | Self::Yaml(_) => Exit::Failed,
        }
    }
}
