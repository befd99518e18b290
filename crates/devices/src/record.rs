//! Writes the checkpoint when plugins or allocations changed, one writer at a time. Decides nothing.

use std::sync::Arc;

use hostlet_base::error_chain;
use hostlet_host::file_work;
use tokio::sync::Mutex;
use tokio::task::JoinError;

use crate::checkpoint::{CheckpointFile, Damage, WriteError};

/// Why the checkpoint is not written.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RecordError {
    #[error(transparent)]
    Write(#[from] WriteError),
    #[error("the thread that writes the checkpoint of devices panicked")]
    Panicked(#[from] JoinError),
}

/// The checkpoint on disk.
pub(crate) struct Record {
    file: CheckpointFile,
    written: Arc<Mutex<Written>>,
}

/// What is known of the file.
struct Written {
    /// Its content; empty if it is not known.
    content: Vec<u8>,
    /// That it is damaged, until it is set aside.
    damage: Option<Damage>,
}

impl Record {
    pub(crate) fn new(file: CheckpointFile, damage: Option<Damage>) -> Self {
        Self { file, written: Arc::new(Mutex::new(Written { content: Vec::new(), damage })) }
    }

    /// Writes what `content` returns, which is called when no older content can be written later. A damaged file is set aside first. A call
    /// that is cut short may have written it.
    pub(crate) async fn write(&self, content: impl FnOnce() -> Vec<u8>) -> Result<(), RecordError> {
        let mut written = self.written.clone().lock_owned().await;
        let content = content();
        if written.content == content {
            return Ok(());
        }
        let file = self.file.clone();
        let work = move || {
            // The lock is held until the file is written, whoever waits for it.
            if let Some(damage) = written.damage.take() {
                tracing::error!(problem = damage.problem, "which devices pods have may not be known");
                if let Err(error) = file.set_aside(&damage) {
                    tracing::error!(error = error_chain(&error), "the damaged checkpoint is overwritten");
                }
            }
            let result = file.write(&content);
            written.content = if result.is_ok() { content } else { Vec::new() };
            result
        };
        Ok(file_work(work).await??)
    }
}
