//! What can go wrong with the file, told apart by what is to be done about it.

use std::io;

use redb::{CommitError, DatabaseError, StorageError, TableError, TransactionError};

/// Why the file could not be used.
#[derive(Debug, thiserror::Error)]
pub(super) enum FileError {
    /// It does not hold what was written, or is not ours: to be set aside.
    #[error("{0}")]
    Damaged(String),
    /// Another process has it open: to be tried again.
    #[error("another process has it open")]
    InUse,
    /// The system refused an operation: to be tried again.
    #[error("cannot {operation} it: {source}")]
    Io {
        /// What was tried.
        operation: &'static str,
        /// Why it failed.
        source: io::Error,
    },
}

impl FileError {
    pub(super) fn io(operation: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io { operation, source }
    }

    fn of_storage(error: StorageError) -> Self {
        match error {
            // What is read is not what should be there: of another format, or shorter.
            StorageError::Io(error)
                if matches!(error.kind(), io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof) =>
            {
                Self::Damaged(error.to_string())
            }
            StorageError::Io(source) => Self::Io { operation: "read or write", source },
            StorageError::PreviousIo => {
                Self::Io { operation: "use", source: io::Error::other("an earlier operation failed") }
            }
            other => Self::Damaged(other.to_string()),
        }
    }
}

impl From<DatabaseError> for FileError {
    fn from(error: DatabaseError) -> Self {
        match error {
            DatabaseError::DatabaseAlreadyOpen => Self::InUse,
            DatabaseError::Storage(error) => Self::of_storage(error),
            other => Self::Damaged(other.to_string()),
        }
    }
}

impl From<StorageError> for FileError {
    fn from(error: StorageError) -> Self {
        Self::of_storage(error)
    }
}

impl From<TableError> for FileError {
    fn from(error: TableError) -> Self {
        match error {
            TableError::Storage(error) => Self::of_storage(error),
            other => Self::Damaged(other.to_string()),
        }
    }
}

impl From<TransactionError> for FileError {
    fn from(error: TransactionError) -> Self {
        match error {
            TransactionError::Storage(error) => Self::of_storage(error),
            other => Self::Damaged(other.to_string()),
        }
    }
}

impl From<CommitError> for FileError {
    fn from(error: CommitError) -> Self {
        match error {
            CommitError::Storage(error) => Self::of_storage(error),
            other => Self::Damaged(other.to_string()),
        }
    }
}
