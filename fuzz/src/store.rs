//! The file of the local store.

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::OnceLock;

use hostlet_store::{Store, Table};

type Rows = BTreeMap<String, String>;

/// A valid file to corrupt, both closed and as left by a killed daemon, with its content after each write.
struct Sound {
    closed: Vec<u8>,
    killed: Vec<u8>,
    written: Vec<Rows>,
}

/// The store in the file at `path`, with its content and its reported problem.
fn opened<T>(path: &Path, then: impl FnOnce(&Store, &mut dyn FnMut() -> bool) -> T) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (store, mut keeper) = runtime.block_on(Store::open(path.to_owned()));
    then(&store, &mut || keeper.write())
}

fn rows(store: &Store) -> Rows {
    store.all(Table::AdmittedPods).into_iter().collect()
}

fn sound() -> &'static Sound {
    static SOUND: OnceLock<Sound> = OnceLock::new();
    SOUND.get_or_init(|| {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("store.redb");
        let mut written = vec![Rows::new()];
        let killed = opened(&path, |store, write| {
            for version in 0..4 {
                for pod in version..20 + version {
                    // Small rows, and one that takes several pages.
                    let size = if pod == 7 { 20_000 } else { 300 };
                    store.put(
                        Table::AdmittedPods,
                        &format!("pod{pod}"),
                        &format!("{version}{}", "x".repeat(size)),
                    );
                }
                store.retain(Table::AdmittedPods, |key| key != format!("pod{version}"));
                assert!(write());
                written.push(rows(store));
            }
            fs::read(&path).unwrap()
        });
        Sound { closed: fs::read(&path).unwrap(), killed, written }
    })
}

/// The file that an input describes, and the content that it may have. An input that begins with `C` or `K` corrupts the
/// closed file or that of a killed daemon: five bytes flip bits at an offset, fewer than five truncate the file. Any
/// other input is the file.
fn file(input: &[u8]) -> (Vec<u8>, Option<&'static [Rows]>) {
    let (bytes, edits) = match input {
        [b'C', edits @ ..] => (&sound().closed, edits),
        [b'K', edits @ ..] => (&sound().killed, edits),
        _ => return (input.to_vec(), None),
    };
    let mut bytes = bytes.clone();
    let used = bytes.iter().rposition(|byte| *byte != 0).map_or(1, |last| last + 1);
    let offset = |bytes: &[u8]| {
        bytes.iter().rev().fold(0_usize, |offset, byte| offset << 8 | usize::from(*byte)) % used
    };
    let (edits, cut) = edits.split_at(edits.len() / 5 * 5);
    for edit in edits.chunks(5) {
        bytes[offset(&edit[..4])] ^= edit[4];
    }
    if !cut.is_empty() {
        bytes.truncate(offset(cut));
    }
    (bytes, Some(&sound().written))
}

/// Checks for any file: the store opens; its content is what one write left, or nothing; an unusable file is
/// reported; and the store then stores new rows.
pub fn store_file(input: &[u8]) {
    let (bytes, written) = file(input);
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store.redb");
    let mut options = OpenOptions::new();
    options.write(true).create_new(true).mode(0o600).open(&path).unwrap().write_all(&bytes).unwrap();
    let kept = opened(&path, |store, write| {
        let read = rows(store);
        let trouble = store.trouble().borrow().clone();
        if let Some(written) = written {
            let is_whole = !read.is_empty() && written.contains(&read);
            assert!(is_whole || trouble.is_some(), "{} rows that were never there", read.len());
            assert!(is_whole || read.is_empty(), "{} of the rows", read.len());
        }
        if let Some(trouble) = trouble {
            super::check_message(&trouble.replace(&*directory.path().to_string_lossy(), ""));
        }
        store.put(Table::CrashLoops, "pod", &"news");
        assert!(write(), "{:?}", store.trouble().borrow());
        read
    });
    opened(&path, |store, _| {
        assert_eq!(rows(store), kept);
        assert_eq!(store.get::<String>(Table::CrashLoops, "pod").as_deref(), Some("news"));
        assert_eq!(*store.trouble().borrow(), None);
    });
}
