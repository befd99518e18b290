//! Test archives, an in-memory store, and readers of in-memory archives.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Cursor, Write};
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tar::{EntryType, Header};
use tokio_util::sync::CancellationToken;

use super::archive::Survey;
use super::import::{BlobWriter, ImageStore, LeasedBlob};
use super::input::Input;
use super::target::Target;
use super::{ArchiveError, Digest, StoreError};

pub(super) const OCI_MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
pub(super) const OCI_INDEX: &str = "application/vnd.oci.image.index.v1+json";
pub(super) const OCI_CONFIG: &str = "application/vnd.oci.image.config.v1+json";
pub(super) const OCI_LAYER: &str = "application/vnd.oci.image.layer.v1.tar";

/// Builds a tar archive.
#[derive(Default)]
pub(super) struct Sample(Vec<u8>);

impl Sample {
    pub(super) fn file(mut self, name: &str, content: &[u8]) -> Self {
        self.entry(EntryType::Regular, name, "", content);
        self
    }

    pub(super) fn symlink(mut self, name: &str, target: &str) -> Self {
        self.entry(EntryType::Symlink, name, target, b"");
        self
    }

    /// Adds a blob of an OCI layout and returns its descriptor.
    pub(super) fn blob(&mut self, media_type: &str, content: &[u8]) -> Value {
        let digest = Digest::of(content);
        let hex = digest.as_str().trim_start_matches("sha256:");
        self.entry(EntryType::Regular, &format!("blobs/sha256/{hex}"), "", content);
        json!({"mediaType": media_type, "digest": digest.as_str(), "size": content.len()})
    }

    /// Adds an image with one layer and returns the descriptor of its manifest.
    pub(super) fn image(&mut self, architecture: &str, layer: &[u8]) -> Value {
        let layer = self.blob(OCI_LAYER, layer);
        let config = json!({"os": "linux", "architecture": architecture, "rootfs": {}}).to_string();
        let config = self.blob(OCI_CONFIG, config.as_bytes());
        let manifest = json!({"schemaVersion": 2, "config": config, "layers": [layer]}).to_string();
        self.blob(OCI_MANIFEST, manifest.as_bytes())
    }

    /// Adds the files that make it an OCI layout.
    pub(super) fn layout(self, roots: &[Value]) -> Self {
        let index = json!({"schemaVersion": 2, "manifests": roots}).to_string();
        self.file("index.json", index.as_bytes()).file("oci-layout", b"{\"imageLayoutVersion\":\"1.0.0\"}")
    }

    pub(super) fn entry(&mut self, kind: EntryType, name: &str, link: &str, content: &[u8]) {
        let mut header = Header::new_gnu();
        header.set_entry_type(kind);
        header.set_size(content.len() as u64);
        // Written by hand, because the crate's setter rejects malicious paths.
        let gnu = header.as_gnu_mut().unwrap();
        gnu.name[..name.len()].copy_from_slice(name.as_bytes());
        gnu.linkname[..link.len()].copy_from_slice(link.as_bytes());
        self.header(header, content);
    }

    pub(super) fn header(&mut self, mut header: Header, content: &[u8]) {
        header.set_cksum();
        self.0.extend_from_slice(header.as_bytes());
        self.0.extend_from_slice(content);
        self.0.resize(self.0.len().next_multiple_of(512), 0);
    }

    pub(super) fn end(mut self) -> Vec<u8> {
        self.0.extend_from_slice(&[0; 1024]);
        self.0
    }
}

/// An OCI archive of one image for amd64 with this name.
pub(super) fn oci(name: &str, layer: &[u8]) -> Vec<u8> {
    let mut sample = Sample::default();
    let mut root = sample.image("amd64", layer);
    root["annotations"] = json!({"io.containerd.image.name": name});
    sample.layout(&[root]).end()
}

pub(super) fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

pub(super) fn input(bytes: &[u8]) -> Result<Input, ArchiveError> {
    Input::new(Box::new(Cursor::new(bytes.to_vec())), CancellationToken::new())
}

pub(super) fn survey(bytes: &[u8]) -> Result<Survey, ArchiveError> {
    Survey::read(input(bytes)?)
}

/// An in-memory content store that verifies digests.
#[derive(Clone, Default)]
pub(super) struct MemoryStore(Arc<Mutex<Memory>>);

#[derive(Default)]
pub(super) struct Memory {
    pub(super) blobs: BTreeMap<Digest, BTreeMap<String, String>>,
    pub(super) images: BTreeMap<String, Digest>,
    pub(super) leases: BTreeSet<String>,
    /// Number of started writes.
    pub(super) writes: usize,
    /// The error of every call except image lookups.
    pub(super) failure: Option<fn() -> StoreError>,
}

struct MemoryWriter {
    store: MemoryStore,
    expected: Digest,
    size: u64,
    labels: BTreeMap<String, String>,
    content: Vec<u8>,
}

impl MemoryStore {
    pub(super) fn look<T>(&self, look: impl FnOnce(&mut Memory) -> T) -> T {
        look(&mut self.0.lock())
    }
}

#[async_trait]
impl ImageStore for MemoryStore {
    async fn target(&self, name: &str) -> Result<Option<Digest>, StoreError> {
        Ok(self.look(|memory| memory.images.get(name).cloned()))
    }

    async fn put(&self, name: &str, target: &Target) -> Result<(), StoreError> {
        self.look(|memory| {
            assert!(memory.blobs.contains_key(&target.digest), "a record before its content");
            memory.images.insert(name.to_owned(), target.digest.clone());
        });
        Ok(())
    }

    async fn lease(&self) -> Result<String, StoreError> {
        self.look(|memory| match memory.failure {
            Some(failure) => Err(failure()),
            None => {
                memory.leases.insert("lease".to_owned());
                Ok("lease".to_owned())
            }
        })
    }

    async fn release(&self, lease: &str) -> Result<(), StoreError> {
        self.look(|memory| memory.leases.remove(lease));
        Ok(())
    }

    async fn hold(&self, blob: LeasedBlob<'_>) -> Result<bool, StoreError> {
        self.look(|memory| {
            assert!(memory.leases.contains(blob.lease));
            let labels = memory.blobs.get_mut(blob.digest);
            Ok(labels.map(|labels| labels.extend(blob.labels.clone())).is_some())
        })
    }

    async fn write(&self, blob: LeasedBlob<'_>) -> Result<Box<dyn BlobWriter>, StoreError> {
        self.look(|memory| memory.writes += 1);
        Ok(Box::new(MemoryWriter {
            store: self.clone(),
            expected: blob.digest.clone(),
            size: blob.size,
            labels: blob.labels.clone(),
            content: Vec::new(),
        }))
    }
}

#[async_trait]
impl BlobWriter for MemoryWriter {
    async fn write(&mut self, content: Bytes) -> Result<(), StoreError> {
        self.content.extend_from_slice(&content);
        Ok(())
    }

    async fn commit(self: Box<Self>) -> Result<(), StoreError> {
        assert_eq!(
            (Digest::of(&self.content), self.content.len() as u64),
            (self.expected.clone(), self.size)
        );
        // Its references must be there already.
        let blobs = self.store.look(|memory| memory.blobs.keys().cloned().collect::<Vec<_>>());
        assert!(self.labels.values().all(|child| blobs.iter().any(|blob| blob.as_str() == child)));
        let Self { store, expected, labels, .. } = *self;
        store.look(|memory| memory.blobs.insert(expected, labels));
        Ok(())
    }
}
