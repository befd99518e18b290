//! Imports one archive: reads its table of files, plans the import, and sends the missing blobs to the store.

use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use hostlet_base::error_chain;
use nix::fcntl::OFlag;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::archive::{Piece, Survey, send};
use super::import::{
    ImageStore, is_present, missing, records, selected, write_documents, write_pieces, write_records,
};
use super::input::Input;
use super::plan::{Plan, plan};
use super::target::Target;
use super::{ArchiveError, PlanError, StoreError};

/// Maximum number of chunks in flight: one is read while another is written.
const PIECES: usize = 2;

/// Why an import failed.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// The file cannot be read; it is unusable until it changes.
    #[error(transparent)]
    Archive(#[from] ArchiveError),
    /// The file's contents are unusable.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// The runtime failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The reader panicked.
    #[error("reading the archive panicked")]
    Reader(#[from] tokio::task::JoinError),
}

/// Ensures that the archive's images for Linux on `architecture` (OCI name) are in the store. Returns their records.
pub async fn import_file(
    path: &Path,
    architecture: &'static str,
    store: &dyn ImageStore,
    cancel: &CancellationToken,
) -> Result<BTreeMap<String, Target>, ImportError> {
    let (file, reading) = (path.to_owned(), cancel.clone());
    let planned = tokio::task::spawn_blocking(move || -> Result<Plan, ImportError> {
        Ok(plan(&Survey::read(open(&file, reading)?)?, architecture)?)
    });
    let plan = planned.await??;
    let records = records(&plan);
    if is_present(store, &records).await? {
        return Ok(records);
    }
    let lease = store.lease().await?;
    let imported = import_under(&lease, path, store, &plan, &records, cancel).await;
    // A lease that is not deleted expires.
    if let Err(error) = store.release(&lease).await {
        tracing::debug!(lease, error = error_chain(&error), "cannot delete the lease of an import");
    }
    imported.map(|()| records)
}

async fn import_under(
    lease: &str,
    path: &Path,
    store: &dyn ImageStore,
    plan: &Plan,
    records: &BTreeMap<String, Target>,
    cancel: &CancellationToken,
) -> Result<(), ImportError> {
    let mut missing = missing(store, lease, plan).await?;
    let selected = selected(plan, &missing);
    if !selected.is_empty() {
        let count = selected.len();
        let (sender, mut pieces) = mpsc::channel::<Piece>(PIECES);
        let (file, cancel) = (path.to_owned(), cancel.clone());
        let reader = tokio::task::spawn_blocking(move || send(open(&file, cancel)?, &selected, &sender));
        let written = write_pieces(store, lease, plan, &mut pieces).await;
        // Stops the reader if the store failed.
        drop(pieces);
        let read = reader.await?;
        let written = written?;
        read?;
        if written.len() < count {
            // The file was replaced after the first pass; its new stamp makes it due again.
            return Err(ArchiveError::Changed.into());
        }
        missing.retain(|digest| !written.contains(digest));
    }
    write_documents(store, lease, plan, &missing).await?;
    Ok(write_records(store, records).await?)
}

fn open(path: &Path, cancel: CancellationToken) -> Result<Input, ArchiveError> {
    // A file put in its place since the listing must not block on open.
    let file = OpenOptions::new().read(true).custom_flags(OFlag::O_NONBLOCK.bits()).open(path);
    Input::new(Box::new(file.map_err(ArchiveError::Open)?), cancel)
}
