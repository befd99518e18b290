//! Brings a planned archive into a content store: what is missing of its blobs, then the image records. Knows no gRPC.

use std::collections::{BTreeMap, BTreeSet};

use async_trait::async_trait;
use bytes::Bytes;
use tokio::sync::mpsc;

use super::archive::Piece;
use super::plan::{Content, Plan, PlannedBlob};
use super::{Digest, StoreError};

/// What an image record points to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// Of the manifest or index.
    pub media_type: String,
    /// Of the manifest or index.
    pub digest: Digest,
    /// Its length in bytes.
    pub size: u64,
}

/// A blob to be written.
#[derive(Clone, Copy, Debug)]
pub struct LeasedBlob<'a> {
    /// The lease that keeps it until something refers to it.
    pub lease: &'a str,
    /// Its digest, which the store checks.
    pub digest: &'a Digest,
    /// Its length in bytes.
    pub size: u64,
    /// Labels it shall have.
    pub labels: &'a BTreeMap<String, String>,
}

/// The store of a runtime: content by digest, and images by name.
#[async_trait]
pub trait ImageStore: Send + Sync {
    /// What the image record `name` points to; none if there is no such record that pods can use.
    async fn target(&self, name: &str) -> Result<Option<Digest>, StoreError>;
    /// Makes the record, or points it to `target`.
    async fn put(&self, name: &str, target: &Target) -> Result<(), StoreError>;
    /// Makes a lease: what is put under it is not collected as garbage. It ends by itself after a day.
    async fn lease(&self) -> Result<String, StoreError>;
    /// Ends a lease.
    async fn release(&self, lease: &str) -> Result<(), StoreError>;
    /// Puts a blob under its lease and gives it its labels, if it is there. Answers whether it is.
    async fn hold(&self, blob: LeasedBlob<'_>) -> Result<bool, StoreError>;
    /// Begins to write a blob, afresh.
    async fn write(&self, blob: LeasedBlob<'_>) -> Result<Box<dyn BlobWriter>, StoreError>;
}

/// A blob being written. Dropped before the commit, it never was.
#[async_trait]
pub trait BlobWriter: Send {
    /// Adds content.
    async fn write(&mut self, content: Bytes) -> Result<(), StoreError>;
    /// Makes it a blob of the store.
    async fn commit(self: Box<Self>) -> Result<(), StoreError>;
}

/// Whether all records of a plan point where they should.
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

/// Which blobs of a plan the store lacks, and holds those it has. Answers the files of the archive to be sent.
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

/// The files of the archive that hold blobs in `missing`.
pub(super) fn wanted(plan: &Plan, missing: &BTreeSet<Digest>) -> BTreeMap<String, Digest> {
    let blobs = plan.blobs.iter().filter(|blob| missing.contains(&blob.digest));
    blobs
        .filter_map(|blob| match &blob.content {
            Content::File(name) => Some((name.clone(), blob.digest.clone())),
            Content::Known(_) => None,
        })
        .collect()
}

/// Writes the blobs that come in `pieces`. Answers those that were written whole.
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

/// Writes the documents in `missing`, what is referred to first.
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
            // A store that shares content with other namespaces may have taken it from there, without the labels.
            store.hold(leased(lease, blob)).await?;
        }
    }
    Ok(())
}

/// The records of a plan. Of one name given twice, the last counts.
pub(super) fn records(plan: &Plan) -> BTreeMap<String, Target> {
    let images = plan.images.iter();
    images.flat_map(|image| image.records.iter().map(|name| (name.clone(), image.target.clone()))).collect()
}

/// Makes the image records, IDs first, as when the runtime pulls.
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
