//! Hostile and damaged archives yield an error: no panic and no unbounded memory.

use std::collections::BTreeMap;

use proptest::prelude::*;
use tar::{EntryType, Header};
use tokio::sync::mpsc;

use super::super::samples::{Sample, gzip, input, oci, survey};
use super::super::{ArchiveError, Digest};
use super::{Piece, send};

const NAME: &str = "registry.example/app:1";

fn error_of(bytes: &[u8]) -> String {
    survey(bytes).unwrap_err().to_string()
}

/// The chunks sent for the file `name` as the blob `digest`.
fn sent(archive: &[u8], name: &str, digest: &Digest) -> Result<Vec<u8>, ArchiveError> {
    let (sender, mut pieces) = mpsc::channel(1000);
    send(input(archive)?, &BTreeMap::from([(name.to_owned(), digest.clone())]), &sender)?;
    drop(sender);
    let mut content = Vec::new();
    while let Some(piece) = pieces.blocking_recv() {
        if let Piece::Content(bytes) = piece {
            content.extend_from_slice(&bytes);
        }
    }
    Ok(content)
}

#[test]
fn files_and_links_are_found_plain_and_compressed() {
    let layer = vec![7; 600_000];
    let archive = Sample::default()
        .file("./a/layer.tar", &layer)
        .symlink("b/layer.tar", "../a/layer.tar")
        .symlink("loop", "loop")
        .file("config.json", b"{}")
        .end();
    for bytes in [archive.clone(), gzip(&archive)] {
        let survey = survey(&bytes).unwrap();
        let (name, found) = survey.find("b/layer.tar").unwrap();
        assert_eq!((name, found.size, &found.digest), ("a/layer.tar", 600_000, &Digest::of(&layer)));
        assert!(found.content.is_none());
        assert_eq!(survey.find("config.json").unwrap().1.content.as_deref(), Some(&b"{}"[..]));
        assert!(survey.find("loop").is_none());
        assert_eq!(sent(&bytes, "a/layer.tar", &Digest::of(&layer)).unwrap(), layer);
    }
}

#[test]
fn content_that_does_not_match_its_digest_is_rejected() {
    let name = format!("blobs/sha256/{}", "0".repeat(64));
    assert!(error_of(&Sample::default().file(&name, b"{}").end()).contains("does not match its digest"));
    // A large blob is verified only when it is sent.
    let archive = Sample::default().file(&name, b"layer").end();
    let digest = survey(&archive).unwrap().find(&name).unwrap().1.digest.clone();
    let error = sent(&archive, &name, &digest).unwrap_err();
    assert!(matches!(error, ArchiveError::WrongDigest { .. }), "{error}");
}

#[test]
fn malicious_entries_are_rejected() {
    for name in ["/etc/passwd", "../x", "a/../../x"] {
        assert!(
            error_of(&Sample::default().file(name, b"x").end()).contains("outside the archive"),
            "{name}"
        );
    }
    for target in ["/etc/passwd", "../../x"] {
        assert!(
            error_of(&Sample::default().symlink("d/link", target).end()).contains("outside the archive"),
            "{target}"
        );
    }
    assert!(error_of(&Sample::default().file("a", b"").file("./a", b"").end()).contains("twice"));
    assert!(error_of(b"\x28\xb5\x2f\xfd....").contains("zstd"));
    assert!(error_of(b"").contains("may be truncated"));
    assert!(error_of(&[b'x'; 1024]).contains("not a tar archive"));
    let mut sparse = Sample::default();
    sparse.entry(EntryType::GNUSparse, "a", "", b"");
    assert!(error_of(&sparse.end()).contains("sparse"));
}

#[test]
fn a_header_that_claims_a_huge_size_allocates_nothing() {
    for kind in [EntryType::Regular, EntryType::GNULongName, EntryType::XHeader, EntryType::XGlobalHeader] {
        for size in [1 << 20, 1 << 40, u64::MAX / 2, u64::MAX] {
            let mut header = Header::new_gnu();
            header.set_entry_type(kind);
            header.set_size(size);
            header.as_gnu_mut().unwrap().name[0] = b'a';
            let mut sample = Sample::default();
            sample.header(header, b"{");
            let archive = sample.end();
            assert!(survey(&archive).is_err(), "{kind:?} {size}");
            assert!(survey(&gzip(&archive)).is_err(), "{kind:?} {size}");
        }
    }
}

#[test]
fn memory_is_bounded() {
    let mut sample = Sample::default();
    let mut document = vec![b' '; 4 << 20];
    document[0] = b'{';
    for number in 0..9 {
        sample = sample.file(&format!("{number}.json"), &document);
    }
    assert!(error_of(&sample.end()).contains("more than 32 MiB"));
}

#[test]
fn long_names_are_read() {
    let name = format!("{}/layer.tar", "d".repeat(150));
    let mut gnu = Sample::default();
    gnu.entry(EntryType::GNULongName, "././@LongLink", "", format!("{name}\0").as_bytes());
    let mut pax = Sample::default();
    let record = format!(" path={name}\n");
    let length = record.len() + 3;
    pax.entry(EntryType::XHeader, "pax", "", format!("{length}{record}").as_bytes());
    for sample in [gnu, pax] {
        let survey = survey(&sample.file("short", b"layer").end()).unwrap();
        assert_eq!(survey.find(&name).unwrap().1.size, 5);
        assert!(survey.find("short").is_none());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Truncated anywhere: an error or a table with fewer files, never more than the archive has.
    #[test]
    fn a_truncated_archive_never_panics(at in 0usize..6000, packed: bool) {
        let whole = oci(NAME, b"layer");
        let whole = if packed { gzip(&whole) } else { whole };
        let _ = survey(&whole[..at.min(whole.len())]);
    }

    #[test]
    fn a_damaged_archive_never_panics(at in 0usize..6000, value: u8, packed: bool) {
        let mut bytes = oci(NAME, b"layer");
        if packed {
            bytes = gzip(&bytes);
        }
        let at = at % bytes.len();
        bytes[at] = value;
        if let Ok(survey) = survey(&bytes) {
            let _ = super::super::plan::plan(&survey, "amd64");
        }
    }

    #[test]
    fn any_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..2048)) {
        let _ = survey(&bytes);
    }
}
