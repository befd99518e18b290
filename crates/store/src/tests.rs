//! The store on real files: recovery, damaged files, and the number of writes.

use std::collections::BTreeMap;
use std::fs::{self, File, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::time::Duration;

use redb::{Database, ReadableDatabase, TableDefinition};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::file::StoreFile;
use super::{Store, StoreWriter, Table, place};

const PODS: Table = Table::AdmittedPods;

fn at(directory: &tempfile::TempDir) -> PathBuf {
    directory.path().join("hostlet/store.redb")
}

fn rows(store: &Store) -> BTreeMap<String, u32> {
    store.all(PODS).into_iter().collect()
}

fn row(key: &str, value: u32) -> BTreeMap<String, u32> {
    BTreeMap::from([(key.to_owned(), value)])
}

/// The files that were set aside.
fn aside(path: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(path.parent().unwrap()).unwrap().map(|entry| entry.unwrap().path());
    let mut aside: Vec<_> = entries.filter(|p| p.to_string_lossy().contains(".aside-")).collect();
    aside.sort();
    aside
}

/// A store whose file has one row, closed.
async fn prepare(path: &Path) {
    let (store, mut writer) = Store::open(path.to_owned()).await;
    store.put(PODS, "a", &1);
    assert!(writer.write());
}

#[tokio::test]
async fn written_rows_are_read_back() {
    let directory = tempfile::tempdir().unwrap();
    let path = at(&directory);
    let (store, mut writer) = Store::open(path.clone()).await;
    assert_eq!(rows(&store), BTreeMap::new());
    store.put(PODS, "a", &1);
    store.put(PODS, "b", &2);
    store.put(Table::CrashLoops, "a", &"x");
    assert!(writer.write());
    store.put(PODS, "b", &3);
    store.retain(PODS, |key| key == "b");
    assert!(writer.write());
    drop(writer);

    let (store, _writer) = Store::open(path.clone()).await;
    assert_eq!(rows(&store), row("b", 3));
    assert_eq!(store.get::<String>(Table::CrashLoops, "a").as_deref(), Some("x"));
    assert_eq!(store.get::<u32>(Table::CrashLoops, "a"), None, "a row of another form counts as none");
    assert_eq!(*store.trouble().borrow(), None);
    assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
    assert_eq!(fs::metadata(path.parent().unwrap()).unwrap().mode() & 0o777, 0o700);
}

#[tokio::test]
async fn rows_written_before_a_kill_are_read_back() {
    let directory = tempfile::tempdir().unwrap();
    let path = at(&directory);
    let (store, mut writer) = Store::open(path.clone()).await;
    let mut copies = Vec::new();
    for value in 0..5 {
        store.put(PODS, "a", &value);
        assert!(writer.write());
        // As if the daemon were killed now: the file as it is, never closed.
        let copy = directory.path().join(format!("copy{value}"));
        fs::copy(&path, &copy).unwrap();
        fs::set_permissions(&copy, Permissions::from_mode(0o600)).unwrap();
        copies.push(copy);
    }
    for (value, copy) in (0..).zip(copies) {
        let (store, _writer) = Store::open(copy).await;
        assert_eq!((rows(&store), store.trouble().borrow().clone()), (row("a", value), None));
    }
}

/// Checks that the thing in the file's place is set aside, reported, and replaced by a working store.
async fn is_set_aside(what: &str, spoil: impl FnOnce(&Path), found: &str) {
    let directory = tempfile::tempdir().unwrap();
    let path = at(&directory);
    prepare(&path).await;
    spoil(&path);
    let (store, mut writer) = Store::open(path.clone()).await;
    assert_eq!(rows(&store), BTreeMap::new(), "{what}");
    let reported = store.trouble().borrow().clone().unwrap();
    assert!(
        reported.contains(found)
            && reported.contains(".aside-")
            && reported.contains("a new store was created"),
        "{what}: {reported}"
    );
    assert_eq!(aside(&path).len(), 1, "{what}");
    store.put(PODS, "b", &2);
    assert!(writer.write(), "{what}");
    drop(writer);
    let (store, _writer) = Store::open(path).await;
    assert_eq!((rows(&store), store.trouble().borrow().clone()), (row("b", 2), None), "{what}");
}

#[tokio::test]
async fn a_file_that_is_no_store_is_set_aside_and_replaced() {
    is_set_aside("nothing", |path| fs::write(path, "").unwrap(), "it is empty").await;
    is_set_aside("text", |path| fs::write(path, "hello, world\n".repeat(400)).unwrap(), "redb").await;
    is_set_aside("zeroes", |path| fs::write(path, vec![0; 1 << 20]).unwrap(), "redb").await;
    let cut = |path: &Path| File::options().write(true).open(path).unwrap().set_len(5000).unwrap();
    is_set_aside("truncated", cut, "truncated").await;
    let flip = |path: &Path| {
        let mut bytes = fs::read(path).unwrap();
        // In the middle of every page but the first, which has the headers; some pages are free.
        for byte in bytes.iter_mut().skip(4096 + 2000).step_by(4096) {
            *byte ^= 1;
        }
        fs::write(path, bytes).unwrap();
    };
    is_set_aside("flipped bits", flip, "orrupt").await;
    let version = |path: &Path| {
        let mut bytes = fs::read(path).unwrap();
        // The version byte of each of the two commit slots.
        for slot in [64, 192] {
            bytes[slot] = 77;
        }
        fs::write(path, bytes).unwrap();
    };
    is_set_aside("another version", version, "file format version <= 3, found 77").await;
    let open = |path: &Path| fs::set_permissions(path, Permissions::from_mode(0o666)).unwrap();
    is_set_aside("writable by all", open, "others may write it").await;
    let link = |path: &Path| {
        fs::rename(path, path.with_extension("elsewhere")).unwrap();
        symlink(path.with_extension("elsewhere"), path).unwrap();
    };
    is_set_aside("a link", link, "not a regular file").await;
    let directory = |path: &Path| {
        fs::remove_file(path).unwrap();
        fs::create_dir(path).unwrap();
    };
    is_set_aside("a directory", directory, "not a regular file").await;
    let fifo = |path: &Path| {
        fs::remove_file(path).unwrap();
        nix::unistd::mkfifo(path, nix::sys::stat::Mode::S_IRWXU).unwrap();
    };
    is_set_aside("a pipe", fifo, "not a regular file").await;
}

#[tokio::test]
async fn the_tables_of_a_newer_version_are_left_alone() {
    const NEWER: TableDefinition<'_, &str, &[u8]> = TableDefinition::new("admitted-pods/2");
    let directory = tempfile::tempdir().unwrap();
    let path = at(&directory);
    prepare(&path).await;
    let database = Database::open(&path).unwrap();
    let writing = database.begin_write().unwrap();
    writing.open_table(NEWER).unwrap().insert("a", &b"newer"[..]).unwrap();
    writing.commit().unwrap();
    drop(database);

    let (store, mut writer) = Store::open(path.clone()).await;
    assert_eq!((rows(&store), store.trouble().borrow().clone()), (row("a", 1), None));
    store.put(PODS, "a", &2);
    assert!(writer.write());
    drop(writer);

    let database = Database::open(&path).unwrap();
    let reading = database.begin_read().unwrap();
    let kept = reading.open_table(NEWER).unwrap().get("a").unwrap();
    assert_eq!(kept.unwrap().value(), b"newer");
}

#[tokio::test]
async fn a_file_readable_by_others_is_restricted_to_its_owner() {
    let directory = tempfile::tempdir().unwrap();
    let path = at(&directory);
    prepare(&path).await;
    fs::set_permissions(&path, Permissions::from_mode(0o644)).unwrap();
    let (store, _writer) = Store::open(path.clone()).await;
    assert_eq!(rows(&store), row("a", 1));
    assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
}

#[tokio::test]
async fn only_the_newest_files_set_aside_are_kept() {
    let directory = tempfile::tempdir().unwrap();
    let path = at(&directory);
    fs::create_dir(path.parent().unwrap()).unwrap();
    for n in 0..6 {
        fs::write(&path, format!("no store {n}")).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
        drop(Store::open(path.clone()).await);
        // Names have a resolution of milliseconds.
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    let kept: Vec<_> = aside(&path).iter().map(|p| fs::read_to_string(p).unwrap()).collect();
    assert_eq!(kept, ["no store 3", "no store 4", "no store 5"]);
}

#[tokio::test]
async fn a_file_damaged_while_in_use_is_rewritten_from_memory() {
    let directory = tempfile::tempdir().unwrap();
    let path = at(&directory);
    let (store, mut writer) = Store::open(path.clone()).await;
    for n in 0..50 {
        store.put(PODS, &format!("key{n}"), &"x".repeat(4000));
    }
    assert!(writer.write());
    let length = fs::metadata(&path).unwrap().len();
    fs::write(&path, vec![0xaa; usize::try_from(length).unwrap()]).unwrap();
    // redb does not notice until it reads pages that are not in its cache.
    for n in 0..50 {
        store.put(PODS, &format!("key{n}"), &format!("{n}"));
        assert!(writer.write());
    }
    drop(writer);
    let (store, _writer) = Store::open(path.clone()).await;
    let stored: BTreeMap<String, String> = store.all(PODS).into_iter().collect();
    match aside(&path).len() {
        // Noticed on the next opening, and the new daemon starts empty; or while in use, and nothing is lost.
        0 => panic!("the damage was not noticed: {stored:?}"),
        _ => assert!(stored.is_empty() || stored.len() == 50, "{stored:?}"),
    }
}

#[tokio::test]
async fn the_daemon_continues_and_retries_if_the_file_cannot_be_created() {
    let directory = tempfile::tempdir().unwrap();
    let path = at(&directory);
    fs::write(path.parent().unwrap(), "a file in place of the directory").unwrap();
    let (store, mut writer) = Store::open(path.clone()).await;
    let reported = store.trouble().borrow().clone().unwrap();
    assert!(reported.contains("cannot be used: cannot make the directory of it"), "{reported}");
    store.put(PODS, "a", &1);
    assert!(!writer.write());
    assert!(!writer.write());
    assert_eq!(rows(&store), row("a", 1));

    fs::remove_file(path.parent().unwrap()).unwrap();
    assert!(writer.write());
    assert_eq!(*store.trouble().borrow(), None);
    drop(writer);
    assert_eq!(rows(&Store::open(path).await.0), row("a", 1));
}

#[tokio::test]
async fn rows_are_read_where_nothing_can_be_written() {
    let directory = tempfile::tempdir().unwrap();
    let path = at(&directory);
    prepare(&path).await;
    // Like a read-only file system: root can write to any file except a running executable.
    let bytes = fs::read(&path).unwrap();
    let read = StoreFile::of_bytes(&bytes).unwrap().read().unwrap();
    assert_eq!(read.len(), 1);
    assert_eq!(place::open_read_only(&path).unwrap().read().unwrap(), read);
    assert_eq!(fs::read(&path).unwrap(), bytes, "reading changed the file");
}

#[tokio::test(start_paused = true)]
async fn a_file_that_another_daemon_closes_is_opened() {
    let directory = tempfile::tempdir().unwrap();
    let path = at(&directory);
    prepare(&path).await;
    let held = place::open(&path).unwrap();
    let mut tasks = JoinSet::new();
    tasks.spawn(Store::open(path.clone()));
    tokio::time::sleep(Duration::from_secs(3)).await;
    drop(held);
    let (store, writer) = tasks.join_next().await.unwrap().unwrap();
    assert_eq!((rows(&store), store.trouble().borrow().clone()), (row("a", 1), None));

    // Another daemon that does not close it.
    let (other, mut second) = Store::open(path.clone()).await;
    assert!(other.trouble().borrow().clone().unwrap().contains("another process has it open"));
    other.put(PODS, "b", &2);
    assert!(!second.write());
    assert!(aside(&path).is_empty(), "a file in use is not damaged");
    drop(writer);
    assert!(second.write());
    assert_eq!(*other.trouble().borrow(), None);
}

/// A running writer, whose writes are observed in copies of its file.
struct Running {
    directory: tempfile::TempDir,
    store: Store,
    tasks: JoinSet<()>,
    cancel: CancellationToken,
}

impl Running {
    async fn start() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let (store, writer): (Store, StoreWriter) = Store::open(at(&directory)).await;
        let (mut tasks, cancel) = (JoinSet::new(), CancellationToken::new());
        tasks.spawn(writer.run(cancel.clone()));
        Self { directory, store, tasks, cancel }
    }

    /// The rows that a restarted daemon would find now.
    fn on_disk(&self, table: Table) -> BTreeMap<String, u32> {
        let rows = StoreFile::of_bytes(&fs::read(at(&self.directory)).unwrap()).unwrap().read().unwrap();
        let of_table = rows.into_iter().filter(|((of, _), _)| *of == table);
        of_table.map(|((_, key), value)| (key, serde_json::from_slice(&value).unwrap())).collect()
    }

    fn version(&self) -> (i64, i64) {
        let metadata = fs::metadata(at(&self.directory)).unwrap();
        (metadata.mtime(), metadata.mtime_nsec())
    }

    async fn seconds(&self, seconds: u64) {
        tokio::time::sleep(Duration::from_secs(seconds)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_burst_is_written_soon_and_then_nothing_while_nothing_changes() {
    let running = Running::start().await;
    for n in 0..100 {
        running.store.put(PODS, &n.to_string(), &n);
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    running.seconds(1).await;
    assert_eq!(running.on_disk(PODS).len(), 100);
    let version = running.version();
    for _ in 0..50 {
        running.store.put(PODS, "7", &7);
        running.seconds(3600).await;
    }
    // A change and its reversal between two writes.
    running.store.put(PODS, "7", &8);
    running.store.put(PODS, "7", &7);
    running.seconds(3600).await;
    assert_eq!(running.version(), version);
}

#[tokio::test(start_paused = true)]
async fn deferred_rows_are_written_with_urgent_ones_and_at_shutdown() {
    let mut running = Running::start().await;
    let loops = |n: u32| running.store.put(Table::CrashLoops, "a", &n);
    let on_disk = || running.on_disk(Table::CrashLoops);
    loops(1);
    running.seconds(1).await;
    assert_eq!(on_disk(), row("a", 1), "the first one soon");
    loops(2);
    running.seconds(10).await;
    assert_eq!(on_disk(), row("a", 1));
    loops(3);
    running.seconds(20).await;
    assert_eq!(on_disk(), row("a", 3), "the next ones together and later");
    loops(4);
    running.store.put(PODS, "p", &1);
    running.seconds(1).await;
    assert_eq!(on_disk(), row("a", 4));
    loops(5);
    running.cancel.cancel();
    running.tasks.join_next().await.unwrap().unwrap();
    assert_eq!(running.on_disk(Table::CrashLoops), row("a", 5));
}

#[tokio::test(start_paused = true)]
async fn a_failed_write_is_retried_until_it_succeeds() {
    let running = Running::start().await;
    running.store.put(PODS, "a", &1);
    running.seconds(1).await;
    // The directory is replaced by a file.
    let home = at(&running.directory).parent().unwrap().to_owned();
    fs::rename(&home, home.with_extension("gone")).unwrap();
    fs::write(&home, "").unwrap();
    running.store.put(PODS, "b", &2);
    running.seconds(3600).await;
    let reported = running.store.trouble().borrow().clone().unwrap();
    assert!(reported.contains("cannot make the directory"), "{reported}");
    fs::remove_file(&home).unwrap();
    running.seconds(600).await;
    assert_eq!(running.on_disk(PODS), BTreeMap::from([("a".to_owned(), 1), ("b".to_owned(), 2)]));
    assert_eq!(*running.store.trouble().borrow(), None);
}

#[tokio::test(start_paused = true)]
async fn a_caller_that_waits_for_the_disk_finds_the_row_there() {
    let running = Running::start().await;
    for n in 0..5 {
        running.store.put(Table::CrashLoops, "a", &n);
        running.store.put(Table::RequestedStarts, "a", &n);
        running.store.written().await;
        for table in [Table::CrashLoops, Table::RequestedStarts] {
            assert_eq!(running.on_disk(table), row("a", n));
        }
    }
    running.store.written().await;
}

#[tokio::test(start_paused = true)]
async fn no_caller_waits_for_a_missing_or_unwritable_file() {
    let start = tokio::time::Instant::now();
    let without = Store::default();
    without.put(PODS, "a", &1);
    without.written().await;
    assert_eq!(start.elapsed(), Duration::ZERO);

    let running = Running::start().await;
    let home = at(&running.directory).parent().unwrap().to_owned();
    fs::rename(&home, home.with_extension("gone")).unwrap();
    fs::write(&home, "").unwrap();
    running.store.put(PODS, "a", &1);
    running.store.written().await;
    let start = tokio::time::Instant::now();
    running.store.put(PODS, "a", &2);
    running.store.written().await;
    assert_eq!(start.elapsed(), Duration::ZERO);
}
