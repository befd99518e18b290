//! Errors of the store's file, classified by the remedy.

use std::io;

use redb::{CommitError, DatabaseError, StorageError, TableError, TransactionError};

/// Why the file could not be used.
#[derive(Debug, thiserror::Error)]
pub(super) enum FileError {
    /// Its content is damaged or not ours: it is set aside.
    #[error("{0}")]
    Damaged(String),
    /// Another process has it open: retried.
    #[error("another process has it open")]
    InUse,
    /// A system call failed: retried.
    #[error("cannot {operation} it: {source}")]
    Io { operation: &'static str, source: io::Error },
}

impl FileError {
    pub(super) fn io(operation: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io { operation, source }
    }

    fn of_storage(error: StorageError) -> Self {
        match error {
            // The file has another format or is truncated.
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
