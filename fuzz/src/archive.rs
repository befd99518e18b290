//! Image archives, up to the images that they become in a store.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::sync::Arc;

use hostlet_image::preload::{
    BlobWriter, Digest, ImageStore, ImportError, LeasedBlob, StoreError, Target, import_file,
};
use parking_lot::Mutex;
use tar::{Builder, EntryType, Header};
use tokio_util::sync::CancellationToken;

/// An input with this prefix describes the files of an archive; any other input is the archive itself.
const FILES: &[u8] = b"FILES\n";
/// Begins the description of a file: `=== NAME`, then its content; `=== NAME -> TARGET` is a link. The name `blob:LABEL` is that
/// of a blob of an OCI layout; later contents may name its digest as `@LABEL` and its size as `#LABEL`.
const FILE: &str = "=== ";

/// The archive that an input describes.
fn archive(input: &[u8]) -> Vec<u8> {
    let Some(described) = input.strip_prefix(FILES) else { return input.to_vec() };
    let described = String::from_utf8_lossy(described);
    let mut tar = Builder::new(Vec::new());
    let mut labels: Vec<(String, String, String)> = Vec::new();
    for file in format!("\n{described}").split(&format!("\n{FILE}")).skip(1) {
        let (head, content) = file.split_once('\n').unwrap_or((file, ""));
        let mut content = content.trim_end_matches('\n').to_owned();
        for (label, digest, size) in &labels {
            content = content.replace(&format!("@{label}"), digest).replace(&format!("#{label}"), size);
        }
        let (name, target) =
            head.split_once(" -> ").map_or((head, None), |(name, target)| (name, Some(target)));
        let mut name = name.to_owned();
        if let Some(label) = name.strip_prefix("blob:").map(str::to_owned) {
            let digest = Digest::of(content.as_bytes()).to_string();
            name = format!("blobs/{}", digest.replace(':', "/"));
            labels.push((label, digest, content.len().to_string()));
        }
        let mut header = Header::new_gnu();
        header.set_mode(0o644);
        header.set_entry_type(if target.is_some() { EntryType::Symlink } else { EntryType::Regular });
        header.set_size(if target.is_some() { 0 } else { content.len() as u64 });
        // Written directly, like an attacker would: the crate's setters reject such names.
        if let Some(gnu) = header.as_gnu_mut() {
            for (field, text) in [(&mut gnu.name, &*name), (&mut gnu.linkname, target.unwrap_or_default())] {
                let length = text.len().min(field.len());
                field[..length].copy_from_slice(&text.as_bytes()[..length]);
            }
        }
        header.set_cksum();
        tar.append(&header, if target.is_some() { &b""[..] } else { content.as_bytes() }).unwrap();
    }
    tar.into_inner().unwrap()
}

/// A store that checks its rules and stores no content.
#[derive(Clone, Default)]
struct Store(Arc<Mutex<Kept>>);

#[derive(Default)]
struct Kept {
    /// With the digests that each refers to.
    blobs: BTreeMap<Digest, BTreeSet<String>>,
    images: BTreeMap<String, Digest>,
    leases: BTreeSet<String>,
}

/// Keeps the content of a blob while it is written: only its digest is of interest, and hostlet itself sends no more than it read.
struct Writer {
    store: Store,
    digest: Digest,
    size: u64,
    children: BTreeSet<String>,
    content: Vec<u8>,
}

impl Store {
    fn look<T>(&self, look: impl FnOnce(&mut Kept) -> T) -> T {
        look(&mut self.0.lock())
    }
}

fn children(blob: &LeasedBlob<'_>) -> BTreeSet<String> {
    blob.labels.values().cloned().collect()
}

#[async_trait::async_trait]
impl ImageStore for Store {
    async fn target(&self, name: &str) -> Result<Option<Digest>, StoreError> {
        Ok(self.look(|kept| kept.images.get(name).cloned()))
    }

    async fn put(&self, name: &str, target: &Target) -> Result<(), StoreError> {
        self.look(|kept| {
            assert!(kept.blobs.contains_key(&target.digest), "an image without its content");
            kept.images.insert(name.to_owned(), target.digest.clone());
        });
        Ok(())
    }

    async fn lease(&self) -> Result<String, StoreError> {
        self.look(|kept| kept.leases.insert("lease".to_owned()));
        Ok("lease".to_owned())
    }

    async fn release(&self, lease: &str) -> Result<(), StoreError> {
        assert!(self.look(|kept| kept.leases.remove(lease)), "a lease is ended that is none");
        Ok(())
    }

    async fn hold(&self, blob: LeasedBlob<'_>) -> Result<bool, StoreError> {
        self.look(|kept| {
            assert!(kept.leases.contains(blob.lease), "without a lease");
            Ok(kept.blobs.get_mut(blob.digest).map(|known| known.extend(children(&blob))).is_some())
        })
    }

    async fn write(&self, blob: LeasedBlob<'_>) -> Result<Box<dyn BlobWriter>, StoreError> {
        assert!(self.look(|kept| kept.leases.contains(blob.lease)), "without a lease");
        let (store, children) = (self.clone(), children(&blob));
        Ok(Box::new(Writer {
            store,
            digest: blob.digest.clone(),
            size: blob.size,
            children,
            content: Vec::new(),
        }))
    }
}

#[async_trait::async_trait]
impl BlobWriter for Writer {
    async fn write(&mut self, content: bytes::Bytes) -> Result<(), StoreError> {
        self.content.extend_from_slice(&content);
        assert!(self.content.len() as u64 <= self.size, "more content than was announced");
        Ok(())
    }

    async fn commit(self: Box<Self>) -> Result<(), StoreError> {
        assert_eq!((Digest::of(&self.content), self.content.len() as u64), (self.digest.clone(), self.size));
        self.store.look(|kept| {
            let there = |child: &String| kept.blobs.keys().any(|blob| blob.as_str() == child);
            assert!(self.children.iter().all(there), "content before what it refers to");
            kept.blobs.insert(self.digest.clone(), self.children.clone())
        });
        Ok(())
    }
}

/// Checks for any archive: it becomes complete images or none, everything that an image refers to is stored before it, and
/// problems are reported.
pub fn image_archive(input: &[u8]) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("archive.tar");
    fs::write(&path, archive(input)).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let store = Store::default();
    let imported = runtime.block_on(import_file(&path, "amd64", &store, &CancellationToken::new()));
    store.look(|kept| {
        assert!(kept.leases.is_empty(), "a lease is left");
        match &imported {
            Ok(records) => {
                assert!(!records.is_empty(), "no image, and no error");
                let named: BTreeMap<&String, &Digest> =
                    records.iter().map(|(name, target)| (name, &target.digest)).collect();
                assert_eq!(kept.images.iter().collect::<BTreeMap<_, _>>(), named);
            }
            Err(error) => {
                assert!(kept.images.is_empty(), "images of an archive that is at fault: {error}");
                let ours = matches!(error, ImportError::Archive(_) | ImportError::Plan(_));
                assert!(ours, "the store is blamed, or a panic: {error}");
                let mut message = error.to_string();
                let mut source = std::error::Error::source(error);
                while let Some(cause) = source {
                    message = format!("{message}: {cause}");
                    source = cause.source();
                }
                super::check_message(&message);
            }
        }
    });
    if imported.is_ok() {
        let again = runtime.block_on(import_file(&path, "amd64", &store, &CancellationToken::new()));
        assert_eq!(again.ok(), imported.ok());
    }
}
