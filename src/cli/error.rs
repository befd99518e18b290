//! Errors of commands.

use std::io;

use super::client::ClientError;
use super::exit::Exit;
use super::service_flags::ServiceFlagsError;
use crate::config::ConfigErrors;

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
    /// The output of a command is not encoded as expected, perhaps by another version.
    #[error("the output of the command cannot be decoded; do daemon and command have the same version?")]
    Decode(#[from] base64::DecodeError),
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
            Self::Decode(_) | Self::Write(_) | Self::Json(_) | Self::Yaml(_) => Exit::Failed,
        }
    }
}
