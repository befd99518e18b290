//! Sealed rows on real files: where the key comes from, what the disk shows, and rows that cannot be opened.

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use super::cipher::KEY_BYTES;
use super::*;
use crate::{Store, StoreWriter, Table};

const TABLE: Table = Table::OfflineObjects;
const PLAIN: &str = "correct horse battery staple";

struct Host(TempDir);

impl Host {
    fn new() -> Self {
        let host = Self(tempfile::tempdir().unwrap());
        fs::create_dir(host.credentials()).unwrap();
        host
    }

    fn credentials(&self) -> PathBuf {
        self.0.path().join("credentials")
    }

    fn place(&self) -> KeyPlace {
        KeyPlace { credentials: Some(self.credentials()), file: self.0.path().join("hostlet/objects.key") }
    }

    fn set_credential(&self, key: &[u8]) {
        fs::write(self.credentials().join(KEY_CREDENTIAL), key).unwrap();
    }

    fn store_path(&self) -> PathBuf {
        self.0.path().join("hostlet/store.redb")
    }

    async fn store(&self) -> (Store, StoreWriter) {
        Store::open(self.store_path()).await
    }

    fn rows(&self, store: &Store) -> SealedRows {
        SealedRows::open(store.clone(), &self.place()).unwrap()
    }
}

fn content(rows: &SealedRows) -> Vec<(String, String, bool)> {
    let (opened, _) = rows.all::<String>(TABLE);
    opened.into_iter().map(|row| (row.key, row.content, row.is_outdated)).collect()
}

fn unreadable(rows: &SealedRows) -> Vec<String> {
    rows.all::<String>(TABLE).1.iter().map(ToString::to_string).collect()
}

/// All bytes of the files below a directory.
fn bytes_below(path: &Path) -> Vec<u8> {
    if path.is_dir() {
        let entries = fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path());
        return entries.flat_map(|entry| bytes_below(&entry)).collect();
    }
    fs::read(path).unwrap()
}

fn has(path: &Path, text: &str) -> bool {
    bytes_below(path).windows(text.len()).any(|part| part == text.as_bytes())
}

#[tokio::test]
async fn sealed_rows_are_read_back_and_the_disk_shows_nothing_of_them() {
    let host = Host::new();
    let (store, mut writer) = host.store().await;
    let rows = host.rows(&store);
    rows.put(TABLE, "a", &PLAIN);
    store.put(Table::CrashLoops, "clear", &"clear text");
    assert!(writer.write());
    drop((writer, rows));
    assert!(!has(host.0.path(), PLAIN) && has(host.0.path(), "clear text"));

    let (store, mut writer) = host.store().await;
    let rows = host.rows(&store);
    assert_eq!(content(&rows), [("a".to_owned(), PLAIN.to_owned(), false)]);
    rows.remove(TABLE, "a");
    assert!(writer.write());
    assert_eq!(host.rows(&store).all::<String>(TABLE), (vec![], vec![]));
}

#[tokio::test]
async fn a_missing_key_file_is_made_for_root_only() {
    let host = Host::new();
    let (store, _writer) = host.store().await;
    host.rows(&store);
    let (file, key) = (host.place().file, fs::read(host.place().file).unwrap());
    assert_eq!((key.len(), fs::metadata(&file).unwrap().mode() & 0o7777), (KEY_BYTES, 0o600));
    // It is restricted again, and stays the same.
    fs::set_permissions(&file, Permissions::from_mode(0o644)).unwrap();
    host.rows(&store);
    assert_eq!(fs::metadata(&file).unwrap().mode() & 0o7777, 0o600);
    assert_eq!(fs::read(&file).unwrap(), key);
}

#[tokio::test]
async fn a_key_that_others_could_have_written_is_set_aside_and_its_rows_are_reported() {
    type Spoil = fn(&Path);
    let spoils: [Spoil; 3] = [
        |file| fs::set_permissions(file, Permissions::from_mode(0o622)).unwrap(),
        |file| fs::write(file, b"short").unwrap(),
        |file| {
            fs::rename(file, file.with_extension("elsewhere")).unwrap();
            symlink(file.with_extension("elsewhere"), file).unwrap();
        },
    ];
    for spoil in spoils {
        let host = Host::new();
        let (store, _writer) = host.store().await;
        host.rows(&store).put(TABLE, "a", &PLAIN);
        let file = host.place().file;
        spoil(&file);
        let rows = host.rows(&store);
        assert!(file.with_extension("key.aside").symlink_metadata().is_ok());
        assert_eq!(content(&rows), []);
        assert_eq!(unreadable(&rows), ["a: it was encrypted with another key, or is damaged"]);
        // The next version replaces it.
        rows.put(TABLE, "a", &"new");
        assert_eq!(content(&rows), [("a".to_owned(), "new".to_owned(), false)]);
    }
}

#[tokio::test]
async fn a_credential_replaces_the_file_without_losing_a_row() {
    let host = Host::new();
    let (store, writer) = host.store().await;
    host.rows(&store).put(TABLE, "a", &PLAIN);
    assert!(!host.rows(&store).has_former_key());

    host.set_credential(&[7; KEY_BYTES]);
    let rows = host.rows(&store);
    assert!(rows.has_former_key());
    assert_eq!(content(&rows), [("a".to_owned(), PLAIN.to_owned(), true)]);
    rows.put(TABLE, "a", &PLAIN);
    let cancel = tokio_util::sync::CancellationToken::new();
    let remove = async {
        assert!(rows.remove_former_key().await.unwrap());
        cancel.cancel();
    };
    tokio::join!(writer.run(cancel.clone()), remove);
    assert!(!host.place().file.exists());
    assert_eq!(content(&host.rows(&store)), [("a".to_owned(), PLAIN.to_owned(), false)]);

    // A key that is away for one start takes no row with it.
    fs::remove_file(host.credentials().join(KEY_CREDENTIAL)).unwrap();
    assert_eq!(unreadable(&host.rows(&store)).len(), 1);
    host.set_credential(&[7; KEY_BYTES]);
    assert_eq!(content(&host.rows(&store)), [("a".to_owned(), PLAIN.to_owned(), false)]);
}

#[tokio::test]
async fn rows_cannot_be_exchanged() {
    let host = Host::new();
    let (store, _writer) = host.store().await;
    let rows = host.rows(&store);
    rows.put(TABLE, "a", &PLAIN);
    let sealed = store.bytes(TABLE).remove(0).1;
    store.put_bytes(TABLE, "b", sealed.to_vec());
    store.put_bytes(Table::OfflineTokens, "a", sealed.to_vec());
    assert_eq!(unreadable(&rows), ["b: it was encrypted with another key, or is damaged"]);
    assert_eq!(rows.all::<String>(Table::OfflineTokens).0, []);
}

#[tokio::test]
async fn a_row_of_another_version_is_reported_without_its_content() {
    let host = Host::new();
    let (store, _writer) = host.store().await;
    let rows = host.rows(&store);
    rows.put(TABLE, "a", &PLAIN);
    let (opened, unreadable) = rows.all::<u32>(TABLE);
    assert_eq!(opened, []);
    assert_eq!(unreadable[0].to_string(), "a: its content is that of another version");
}

#[tokio::test]
async fn nothing_remains_of_discarded_rows() {
    let host = Host::new();
    let (store, _writer) = host.store().await;
    host.rows(&store).put(TABLE, "a", &PLAIN);
    for _ in 0..2 {
        SealedRows::discard(&store, &[TABLE], &host.place()).unwrap();
        assert_eq!(store.keys(TABLE), [""; 0]);
        assert!(!host.place().file.exists());
    }
}

#[tokio::test]
async fn a_credential_that_is_no_key_is_an_error_and_makes_no_file() {
    let host = Host::new();
    let (store, _writer) = host.store().await;
    host.set_credential(b"short");
    let error = SealedRows::open(store, &host.place()).err().unwrap().to_string();
    assert!(error.ends_with("hostlet.objects-key has 5 bytes, not 32"), "{error}");
    assert!(!host.place().file.exists());
}
