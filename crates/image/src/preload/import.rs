//! Imports a planned archive into a content store: first the missing blobs, then the image records. Knows no gRPC.

use std::collections::{BTreeMap, BTreeSet};

use async_trait::async_trait;
use bytes::Bytes;
use tokio::sync::mpsc;

use super::archive::Piece;
use super::plan::{Content, Plan, PlannedBlob};
use super::target::Target;
use super::{Digest, StoreError};

/// A blob to write.
#[derive(Clone, Copy, Debug)]
pub struct LeasedBlob<'a> {
    /// The lease that protects it from garbage collection until it is referenced.
    pub lease: &'a str,
    /// Its digest, verified by the store.
    pub digest: &'a Digest,
    /// Its length in bytes.
    pub size: u64,
    /// Labels that keep what it refers to from garbage collection.
    pub labels: &'a BTreeMap<String, String>,
}

/// A runtime's image store: content by digest and images by name.
#[async_trait]
pub trait ImageStore: Send + Sync {
    /// The target of the image record `name`; `None` if there is no such record that pods can use.
    async fn target(&self, name: &str) -> Result<Option<Digest>, StoreError>;
    /// Creates the record or updates it to `target`.
    async fn put(&self, name: &str, target: &Target) -> Result<(), StoreError>;
    /// Creates a lease, which protects its blobs from garbage collection and expires after a day.
    async fn lease(&self) -> Result<String, StoreError>;
    /// Deletes a lease.
    async fn release(&self, lease: &str) -> Result<(), StoreError>;
    /// If the store has the blob, adds it to its lease and sets its labels. Returns whether it has.
    async fn hold(&self, blob: LeasedBlob<'_>) -> Result<bool, StoreError>;
    /// Starts writing a blob from its beginning.
    async fn write(&self, blob: LeasedBlob<'_>) -> Result<Box<dyn BlobWriter>, StoreError>;
}

/// A blob being written. Dropping it before the commit discards it.
#[async_trait]
pub trait BlobWriter: Send {
    /// Appends content.
    async fn write(&mut self, content: Bytes) -> Result<(), StoreError>;
    /// Makes the blob part of the store, which verifies its digest and size.
    async fn commit(self: Box<Self>) -> Result<(), StoreError>;
}

/// Whether all of the plan's records have the planned targets.
pub(super) async fn is_present(
    store: &dyn ImageStore,
    records: &BTreeMap<String, Target>,
) -> Result<bool, StoreError> {
    for (name, target) in records {
        if store.target(name).await?.as_ref() != Some(&target.digest) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Finds the planned blobs that the store lacks, and protects those it has.
pub(super) async fn missing(
    store: &dyn ImageStore,
    lease: &str,
    plan: &Plan,
) -> Result<BTreeSet<Digest>, StoreError> {
    let mut missing = BTreeSet::new();
    for blob in &plan.blobs {
        if !store.hold(leased(lease, blob)).await? {
            missing.insert(blob.digest.clone());
        }
    }
    Ok(missing)
}

/// The archive's files that contain the blobs in `missing`.
pub(super) fn selected(plan: &Plan, missing: &BTreeSet<Digest>) -> BTreeMap<String, Digest> {
    let blobs = plan.blobs.iter().filter(|blob| missing.contains(&blob.digest));
    blobs
        .filter_map(|blob| match &blob.content {
            Content::File(name) => Some((name.clone(), blob.digest.clone())),
            Content::Known(_) => None,
        })
        .collect()
}

/// Writes the blobs received from `pieces`. Returns those that were completed.
pub(super) async fn write_pieces(
    store: &dyn ImageStore,
    lease: &str,
    plan: &Plan,
    pieces: &mut mpsc::Receiver<Piece>,
) -> Result<BTreeSet<Digest>, StoreError> {
    let mut written = BTreeSet::new();
    let mut open: Option<(Digest, Box<dyn BlobWriter>)> = None;
    while let Some(piece) = pieces.recv().await {
        match piece {
            Piece::Begin(digest) => {
                if let Some(blob) = plan.blobs.iter().find(|blob| blob.digest == digest) {
                    open = Some((digest, store.write(leased(lease, blob)).await?));
                }
            }
            Piece::Content(content) => {
                if let Some((_, writer)) = &mut open {
                    writer.write(content).await?;
                }
            }
            Piece::End => {
                if let Some((digest, writer)) = open.take() {
                    writer.commit().await?;
                    written.insert(digest);
                }
            }
        }
    }
    Ok(written)
}

/// Writes the documents in `missing`, referenced ones first.
pub(super) async fn write_documents(
    store: &dyn ImageStore,
    lease: &str,
    plan: &Plan,
    missing: &BTreeSet<Digest>,
) -> Result<(), StoreError> {
    for blob in plan.blobs.iter().filter(|blob| missing.contains(&blob.digest)) {
        if let Content::Known(content) = &blob.content {
            let mut writer = store.write(leased(lease, blob)).await?;
            writer.write(content.clone()).await?;
            writer.commit().await?;
            // A store that shares content between namespaces may have taken it from another one, without the labels.
            store.hold(leased(lease, blob)).await?;
        }
    }
    Ok(())
}

/// The plan's records. If a name occurs twice, the last one wins.
pub(super) fn records(plan: &Plan) -> BTreeMap<String, Target> {
    let images = plan.images.iter();
    images.flat_map(|image| image.records.iter().map(|name| (name.clone(), image.target.clone()))).collect()
}

/// Creates the image records, IDs first, as the runtime does in a pull.
pub(super) async fn write_records(
    store: &dyn ImageStore,
    records: &BTreeMap<String, Target>,
) -> Result<(), StoreError> {
    let (ids, names): (Vec<_>, Vec<_>) = records.iter().partition(|(name, _)| Digest::parse(name).is_some());
    for (name, target) in ids.into_iter().chain(names) {
        if store.target(name).await?.as_ref() != Some(&target.digest) {
            store.put(name, target).await?;
        }
    }
    Ok(())
}

fn leased<'a>(lease: &'a str, blob: &'a PlannedBlob) -> LeasedBlob<'a> {
    LeasedBlob { lease, digest: &blob.digest, size: blob.size, labels: &blob.labels }
}
