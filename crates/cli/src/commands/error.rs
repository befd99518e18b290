//! Errors of commands.

use std::io;

use hostlet_config::ConfigErrors;
use hostlet_runtime::streaming::{StreamUrlError, StreamingError};

use super::client::ClientError;
use super::exit::Exit;
use super::service_flags::ServiceFlagsError;

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
    /// Whether the reader of the output has left, as `head` does when it has enough.
    pub fn is_closed_output(&self) -> bool {
        let kind = match self {
            Self::Write(error) => Some(error.kind()),
            Self::Json(error) => error.io_error_kind(),
            Self::Client(_)
            | Self::Config(_)
            | Self::ServiceFlags(_)
            | Self::Exec(_)
            | Self::Url(_)
            | Self::Streaming(_)
            | Self::Yaml(_) => None,
        };
        kind == Some(io::ErrorKind::BrokenPipe)
    }

    /// The exit code.
    pub fn exit(&self) -> Exit {
        match self {
            _ if self.is_closed_output() => Exit::Ok,
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::objects::{ObjectFormat, write_object};

    /// An output that fails like this.
    struct Failing(io::ErrorKind);

    impl io::Write for Failing {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(self.0.into())
        }

        fn flush(&mut self) -> io::Result<()> {
            Err(self.0.into())
        }
    }

    #[test]
    fn an_output_that_its_reader_closed_is_no_failure() {
        for format in [ObjectFormat::Json, ObjectFormat::Yaml] {
            let exit = |kind| write_object(&mut Failing(kind), format, &[1]).unwrap_err().exit();
            assert_eq!(exit(io::ErrorKind::BrokenPipe), Exit::Ok, "{format:?}");
            assert_eq!(exit(io::ErrorKind::StorageFull), Exit::Failed, "{format:?}");
        }
    }
}
