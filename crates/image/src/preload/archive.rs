//! Reads an image archive in two passes: first the table of its files, then the content of selected blobs. Content is
//! streamed in chunks; only JSON documents are held in memory, up to a limit. Blocks its thread; decides nothing.

use std::collections::BTreeMap;

use bytes::{Bytes, BytesMut};
use sha2::{Digest as _, Sha256};
use tokio::sync::mpsc;

use super::input::Input;
use super::walk::{Entry, Kind, Walk};
use super::{ArchiveError, Digest};

/// Maximum size of a JSON document. containerd reads none above 8 MiB.
const DOCUMENT_MOST: u64 = 4 << 20;
/// Maximum memory for one archive: its documents and the names of its files.
const MEMORY_MOST: usize = 32 << 20;
/// Approximate memory for an entry besides its name and content.
const ENTRY_COST: usize = 256;
/// Size of a chunk, in bytes.
const PIECE: usize = 256 << 10;
/// Maximum length of a chain of links.
const LINKS_MOST: usize = 8;

/// The table of files in an archive.
#[derive(Debug, Default)]
pub(super) struct Survey {
    files: BTreeMap<String, Found>,
    links: BTreeMap<String, String>,
}

/// A file in an archive.
#[derive(Clone, Debug)]
pub(super) struct Found {
    /// Length in bytes.
    pub(super) size: u64,
    /// Digest of its content. A large blob's digest is taken from its name and verified when its content is sent.
    pub(super) digest: Digest,
    /// Its content, if it is a JSON document.
    pub(super) content: Option<Bytes>,
    /// Whether it is compressed with gzip. containerd detects any other compression of a layer itself.
    pub(super) is_gzip: bool,
}

/// One step of the second pass, in the archive's order.
#[derive(Debug)]
pub(super) enum Piece {
    /// A blob begins.
    Begin(Digest),
    /// A chunk of its content.
    Content(Bytes),
    /// The blob is complete and its digest verified.
    End,
}

impl Survey {
    /// First pass: reads the table of files.
    pub(super) fn read(input: Input) -> Result<Self, ArchiveError> {
        let mut walk = Walk::new(input);
        let mut survey = Self::default();
        let mut kept = 0;
        while let Some(entry) = walk.next()? {
            reserve(&mut kept, entry.name.len() + ENTRY_COST)?;
            match entry.kind {
                Kind::Other => {}
                Kind::Link(target) => {
                    reserve(&mut kept, target.len())?;
                    survey.links.insert(entry.name, target);
                }
                Kind::File => {
                    let found = read_entry(&mut walk, &entry, &mut kept)?;
                    if survey.files.insert(entry.name.clone(), found).is_some() {
                        return Err(ArchiveError::Twice(entry.name));
                    }
                }
            }
        }
        Ok(survey)
    }

    /// Finds a file by its name or by the name of a link to it. Also returns the file's own name.
    pub(super) fn find(&self, name: &str) -> Option<(&str, &Found)> {
        let mut found = self.files.get_key_value(name);
        let mut link = self.links.get(name);
        for _ in 0..LINKS_MOST {
            let Some(target) = link.filter(|_| found.is_none()) else { break };
            (found, link) = (self.files.get_key_value(target), self.links.get(target));
        }
        found.map(|(name, found)| (name.as_str(), found))
    }

    /// The files, keyed by digest.
    pub(super) fn by_digest(&self) -> BTreeMap<&Digest, (&str, &Found)> {
        self.files.iter().map(|(name, found)| (&found.digest, (name.as_str(), found))).collect()
    }
}

fn reserve(kept: &mut usize, more: usize) -> Result<(), ArchiveError> {
    *kept += more;
    if *kept > MEMORY_MOST {
        return Err(ArchiveError::TooMuch { what: "32 MiB of names and documents" });
    }
    Ok(())
}

fn read_entry(walk: &mut Walk, entry: &Entry, kept: &mut usize) -> Result<Found, ArchiveError> {
    let promised = Digest::of_blob_path(&entry.name);
    let mut head = [0; 4];
    let filled = walk.read_full(&mut head)?;
    let head = &head[..filled];
    let is_gzip = head.starts_with(b"\x1f\x8b");
    let document = matches!(head.first(), Some(b'{' | b'[')) && entry.size <= DOCUMENT_MOST;
    let (digest, content) = if document {
        let size = usize::try_from(entry.size).unwrap_or_default();
        reserve(kept, size)?;
        let mut content = BytesMut::zeroed(size);
        content[..filled].copy_from_slice(head);
        walk.read_full(&mut content[filled..])?;
        (Digest::of(&content), Some(content.freeze()))
    } else if let Some(promised) = &promised {
        (promised.clone(), None)
    } else {
        (digest_of_rest(walk, head)?, None)
    };
    match promised {
        Some(expected) if expected != digest => {
            Err(ArchiveError::WrongDigest { name: entry.name.clone(), expected })
        }
        Some(_) | None => Ok(Found { size: entry.size, digest, content, is_gzip }),
    }
}

fn digest_of_rest(walk: &mut Walk, head: &[u8]) -> Result<Digest, ArchiveError> {
    let mut hasher = Sha256::new_with_prefix(head);
    let mut buffer = vec![0; 64 << 10];
    loop {
        match walk.read(&mut buffer)? {
            0 => return Ok(Digest::finish(hasher)),
            read => hasher.update(&buffer[..read]),
        }
    }
}

/// Second pass: sends the content of the files in `selected`, given with their digests, in the archive's order. Returns
/// early, without an error, if the receiver was dropped.
pub(super) fn send(
    input: Input,
    selected: &BTreeMap<String, Digest>,
    pieces: &mpsc::Sender<Piece>,
) -> Result<(), ArchiveError> {
    let mut walk = Walk::new(input);
    let mut left = selected.len();
    while left > 0 {
        let Some(entry) = walk.next()? else { return Ok(()) };
        let Some(expected) = selected.get(&entry.name).filter(|_| entry.kind == Kind::File) else { continue };
        left -= 1;
        if pieces.blocking_send(Piece::Begin(expected.clone())).is_err() {
            return Ok(());
        }
        let mut hasher = Sha256::new();
        loop {
            let mut piece = BytesMut::zeroed(PIECE.min(usize::try_from(entry.size).unwrap_or(PIECE)));
            let read = walk.read_full(&mut piece)?;
            if read == 0 {
                break;
            }
            piece.truncate(read);
            hasher.update(&piece);
            if pieces.blocking_send(Piece::Content(piece.freeze())).is_err() {
                return Ok(());
            }
        }
        if Digest::finish(hasher) != *expected {
            return Err(ArchiveError::WrongDigest { name: entry.name, expected: expected.clone() });
        }
        if pieces.blocking_send(Piece::End).is_err() {
            return Ok(());
        }
    }
    Ok(())
}

#[cfg(test)]
#[path = "archive_tests.rs"]
mod tests;
