//! The task with an in-memory store and a directory on disk.

use std::fs::{self, File, FileTimes};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tokio_util::sync::CancellationToken;

use serde_json::json;

use super::super::StoreError;
use super::super::samples::{MemoryStore, Sample, gzip, oci};
use super::{PreloadConfig, PreloadOutputs, run};

/// Writes a file whose last change is long ago.
fn put(path: &Path, bytes: &[u8]) {
    let hidden = path.with_file_name(".new");
    fs::write(&hidden, bytes).unwrap();
    let old = FileTimes::new().set_modified(SystemTime::now() - Duration::from_secs(3600));
    File::options().write(true).open(&hidden).unwrap().set_times(old).unwrap();
    fs::rename(&hidden, path).unwrap();
}

async fn until(store: &MemoryStore, what: &str, done: impl Fn(&MemoryStore) -> bool) {
    let wait = async {
        while !done(store) {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), wait)
        .await
        .unwrap_or_else(|_| panic!("waiting for {what}"));
}

fn has(store: &MemoryStore, name: &str) -> bool {
    store.look(|memory| memory.images.contains_key(name))
}

fn start(directory: &Path, store: &MemoryStore) -> (CancellationToken, impl Future<Output = ()>) {
    start_reporting(directory, store, PreloadOutputs::default())
}

fn start_reporting(
    directory: &Path,
    store: &MemoryStore,
    outputs: PreloadOutputs,
) -> (CancellationToken, impl Future<Output = ()>) {
    let cancel = CancellationToken::new();
    let config = PreloadConfig { directory: directory.to_owned(), architecture: "amd64" };
    (cancel.clone(), run(config, Arc::new(store.clone()), outputs, cancel))
}

#[tokio::test]
async fn archives_are_imported_at_start_up_and_when_they_appear() {
    let directory = tempfile::tempdir().unwrap();
    let store = MemoryStore::default();
    put(&directory.path().join("a.tar"), &oci("r.example/a:1", &[1; 700_000]));
    put(&directory.path().join("broken.tar"), b"nothing of the kind");
    let (cancel, task) = start(directory.path(), &store);
    let test = async {
        until(&store, "a", |store| has(store, "r.example/a:1")).await;
        put(&directory.path().join("b.tar.gz"), &gzip(&oci("r.example/b:1", b"layer")));
        until(&store, "b", |store| has(store, "r.example/b:1")).await;
        until(&store, "no lease", |store| store.look(|memory| memory.leases.is_empty())).await;
        cancel.cancel();
    };
    tokio::join!(task, test);

    // A restarted daemon finds everything there and writes nothing.
    let written = store.look(|memory| std::mem::take(&mut memory.writes));
    // The layer, configuration and manifest of a; b has the same configuration.
    assert_eq!(written, 5);
    put(&directory.path().join("c.tar"), &oci("r.example/c:1", b"layer"));
    let (cancel, task) = start(directory.path(), &store);
    let test = async {
        until(&store, "c", |store| has(store, "r.example/c:1")).await;
        cancel.cancel();
    };
    tokio::join!(task, test);
    assert_eq!(store.look(|memory| memory.writes), 0, "c has the content of b, and only names are new");
}

#[tokio::test]
async fn a_problem_is_reported_until_the_archive_is_fixed() {
    let directory = tempfile::tempdir().unwrap();
    let store = MemoryStore::default();
    let mut foreign = Sample::default();
    let mut root = foreign.image("s390x", b"layer");
    root["annotations"] = json!({"io.containerd.image.name": "r.example/foreign:1"});
    put(&directory.path().join("a.tar"), &[b'x'; 1024]);
    put(&directory.path().join("b.tar.zst"), b"\x28\xb5\x2f\xfd....");
    put(&directory.path().join("c.tar"), &foreign.layout(&[root]).end());
    put(&directory.path().join("d.tar"), &oci("r.example/d:1", b"layer")[..2000]);
    let outputs = PreloadOutputs::default();
    let mut problems = outputs.problems.subscribe();
    let (cancel, task) = start_reporting(directory.path(), &store, outputs);
    let test = async {
        let shown = problems.wait_for(|problems| problems.len() == 4).await.unwrap().clone();
        for (problem, (name, message)) in shown.iter().zip([
            ("a.tar", "is not a tar archive"),
            ("b.tar.zst", "is compressed with zstd; unpack it, or compress it with gzip"),
            ("c.tar", "has no image for this host, which is linux/amd64, only for linux/s390x"),
            ("d.tar", "may be truncated"),
        ]) {
            assert!(problem.path.ends_with(name) && problem.message.contains(message), "{problem:?}");
        }
        put(&directory.path().join("d.tar"), &oci("r.example/d:1", b"layer"));
        fs::remove_file(directory.path().join("a.tar")).unwrap();
        problems.wait_for(|problems| problems.len() == 2).await.unwrap();
        assert!(has(&store, "r.example/d:1"));
        cancel.cancel();
    };
    tokio::join!(task, test);
}

#[tokio::test]
async fn the_images_of_archives_are_published_while_the_archives_are_there() {
    let directory = tempfile::tempdir().unwrap();
    let store = MemoryStore::default();
    put(&directory.path().join("a.tar"), &oci("r.example/a:1", b"layer a"));
    put(&directory.path().join("b.tar"), &oci("r.example/b:1", b"layer b"));
    let outputs = PreloadOutputs::default();
    let mut images = outputs.images.subscribe();
    let (cancel, task) = start_reporting(directory.path(), &store, outputs);
    let test = async {
        let published = images.wait_for(Option::is_some).await.unwrap().clone().unwrap();
        let tagged: Vec<&String> = published.iter().filter(|name| name.ends_with(":1")).collect();
        assert_eq!(tagged, ["r.example/a:1", "r.example/b:1"]);
        assert!(published.iter().any(|name| name.starts_with("sha256:")), "{published:?}");
        fs::remove_file(directory.path().join("a.tar")).unwrap();
        let is_without = |names: &Option<std::collections::BTreeSet<String>>| {
            names.as_ref().is_some_and(|names| !names.contains("r.example/a:1"))
        };
        images.wait_for(is_without).await.unwrap();
        assert!(has(&store, "r.example/a:1"), "removing an archive removes no image");
        cancel.cancel();
    };
    tokio::join!(task, test);
}

#[tokio::test]
async fn a_runtime_without_the_services_is_left_alone() {
    let directory = tempfile::tempdir().unwrap();
    let store = MemoryStore::default();
    store.look(|memory| memory.failure = Some(|| StoreError::Unsupported("leases")));
    put(&directory.path().join("a.tar"), &oci("r.example/a:1", b"layer"));
    let (cancel, task) = start(directory.path(), &store);
    let mut task = Box::pin(task);
    let early = tokio::time::timeout(Duration::from_millis(300), &mut task).await;
    assert!(early.is_err(), "the daemon goes on without");
    cancel.cancel();
    task.await;
    assert_eq!(store.look(|memory| (memory.images.len(), memory.writes)), (0, 0));
}

#[tokio::test]
async fn content_with_a_wrong_digest_makes_no_image() {
    let directory = tempfile::tempdir().unwrap();
    let store = MemoryStore::default();
    let layer = b"a layer that is recognised";
    let mut bytes = oci("r.example/a:1", layer);
    let at = bytes.windows(layer.len()).position(|window| window == layer).unwrap();
    bytes[at] = b'A';
    put(&directory.path().join("a.tar"), &bytes);
    put(&directory.path().join("b.tar"), &oci("r.example/b:1", b"layer"));
    let (cancel, task) = start(directory.path(), &store);
    let test = async {
        until(&store, "b", |store| has(store, "r.example/b:1")).await;
        cancel.cancel();
    };
    tokio::join!(task, test);
    assert!(!has(&store, "r.example/a:1"));
    assert!(store.look(|memory| memory.leases.is_empty()));
}
