//! One archive, from its file to images in a store: surveyed, planned, and what is missing sent.

use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use nix::fcntl::OFlag;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::archive::{Piece, Survey, send};
use super::import::{
    ImageStore, Target, is_present, missing, records, wanted, write_documents, write_pieces, write_records,
};
use super::input::Input;
use super::plan::{Plan, plan};
use super::{ArchiveError, PlanError, StoreError};
use crate::types::error_chain;

/// How many pieces of content may wait for the store: one is read while another is written.
const PIECES: usize = 2;

/// Why an archive was not imported.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// The file is at fault; it is of no use before it changes.
    #[error(transparent)]
    Archive(#[from] ArchiveError),
    /// What the file says is at fault.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// The runtime is at fault.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The reader panicked.
    #[error("reading the archive ended early")]
    Reader(#[from] tokio::task::JoinError),
}

/// Makes sure that the images of an archive are in the store, those for a Linux host of `architecture` as OCI images name it.
/// Answers their records.
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
    // A lease that cannot be ended ends by itself.
    if let Err(error) = store.release(&lease).await {
        tracing::debug!(lease, error = error_chain(&error), "cannot end the lease of an import");
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
    let wanted = wanted(plan, &missing);
    if !wanted.is_empty() {
        let count = wanted.len();
        let (sender, mut pieces) = mpsc::channel::<Piece>(PIECES);
        let (file, cancel) = (path.to_owned(), cancel.clone());
        let reader = tokio::task::spawn_blocking(move || send(open(&file, cancel)?, &wanted, &sender));
        let written = write_pieces(store, lease, plan, &mut pieces).await;
        // Ends the reader if the store failed.
        drop(pieces);
        let read = reader.await?;
        let written = written?;
        read?;
        if written.len() < count {
            // The file was replaced since it was surveyed: its new stamp will bring it back.
            return Err(ArchiveError::Changed.into());
        }
        missing.retain(|digest| !written.contains(digest));
    }
    write_documents(store, lease, plan, &missing).await?;
    Ok(write_records(store, records).await?)
}

fn open(path: &Path, cancel: CancellationToken) -> Result<Input, ArchiveError> {
    // Whatever was put in its place since it was listed must not block us.
    let file = OpenOptions::new().read(true).custom_flags(OFlag::O_NONBLOCK.bits()).open(path);
    Input::new(Box::new(file.map_err(ArchiveError::Open)?), cancel)
}
