//! Work on paths of hanging filesystems, which must block nothing else.

use std::os::unix::fs::symlink;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;

use super::*;

const SHORT: Duration = Duration::from_millis(200);
const LONG: Duration = Duration::from_secs(120);

/// The same threads with another maximum wait.
fn with(threads: &PathWork, patience: Duration) -> PathWork {
    PathWork { patience, ..threads.clone() }
}

async fn run<T: Send + 'static>(
    threads: &PathWork,
    owner: &str,
    path: &str,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, PathError> {
    threads.run(owner, &path_unit(Path::new(path), &mounts()), Path::new(path), work).await
}

/// Work that ends when the sender is dropped.
fn hanging() -> (mpsc::Sender<()>, impl FnOnce() + Send + 'static) {
    let (release, hang) = mpsc::channel();
    (release, move || {
        let _ = hang.recv();
    })
}

fn mounts() -> MountTable {
    MountTable::parse(
        b"25 1 254:0 / / rw - ext4 /dev/vda rw\n\
        26 25 0:40 / /mnt/nfs rw - nfs4 server:/ rw\n\
        27 25 0:41 / /data rw - xfs /dev/vdb rw\n\
        28 25 0:42 / /mnt/s3 rw - fuse.s3fs s3 rw\n\
        29 25 0:40 / /pods/a/nfs rw - nfs4 server:/ rw\n",
    )
}

#[test]
fn paths_on_one_remote_filesystem_block_together_and_others_alone() {
    for (path, unit) in [
        ("/mnt/nfs", "0:40"),
        ("/mnt/nfs/a/b", "0:40"),
        ("/pods/a/nfs/b", "0:40"),
        ("/mnt/nfsd", "/mnt/nfsd"),
        ("/mnt/s3/x", "0:42"),
        ("/data/a", "/data/a"),
        ("/data/../mnt/nfs/./a", "0:40"),
    ] {
        assert_eq!(path_unit(Path::new(path), &mounts()), Path::new(unit), "{path}");
    }
    assert_eq!(path_unit(Path::new("/x"), &MountTable::default()), Path::new("/x"));
}

#[test]
fn links_to_a_remote_filesystem_block_with_it() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().canonicalize().unwrap();
    symlink("/mnt/nfs/export", root.join("absolute")).unwrap();
    symlink("absolute/deeper", root.join("twice")).unwrap();
    symlink("loop", root.join("loop")).unwrap();
    symlink("plain", root.join("local")).unwrap();
    let unit = |path: &str| path_unit(&root.join(path), &mounts());
    assert_eq!(unit("absolute/a"), Path::new("0:40"));
    assert_eq!(unit("twice/../b"), Path::new("0:40"));
    assert_eq!(unit("loop/a"), root.join("loop/a"));
    assert_eq!(unit("local/a"), root.join("plain/a"));
}

#[tokio::test]
async fn paths_on_an_unreachable_server_block_one_thread_only() {
    let threads = PathWork::new(SHORT);
    let (release, hang) = mpsc::channel::<()>();
    let hang = Arc::new(Mutex::new(hang));
    let started = Arc::new(AtomicUsize::new(0));
    for _ in 0..2 {
        for pod in 0..8 {
            let (hang, started) = (hang.clone(), started.clone());
            let work = move || {
                started.fetch_add(1, Ordering::SeqCst);
                let _ = hang.lock().recv();
            };
            let path = format!("/mnt/nfs/{pod}");
            let error = run(&threads, &pod.to_string(), &path, work).await.unwrap_err();
            assert!(
                matches!(&error, PathError::Stuck { path: stuck } if *stuck == Path::new(&path)),
                "{error:?}"
            );
            assert!(error.to_string().starts_with(&format!("{path} does not respond")), "{error}");
        }
    }
    assert!(started.load(Ordering::SeqCst) <= 1);
    let patient = with(&threads, LONG);
    assert_eq!(run(&patient, "0", "/data/a", || 7).await.unwrap(), 7);
    drop(release);
    // Waits for the unblocked thread; an earlier block has no later effect.
    let again = run(&patient, "0", "/mnt/nfs/0", || 8).await;
    assert_eq!((again.unwrap(), started.load(Ordering::SeqCst)), (8, 1));
}

#[tokio::test]
async fn an_owner_whose_paths_hang_waits_alone_and_learns_which_they_are() {
    let threads = PathWork::new(SHORT);
    let mut releases = Vec::new();
    for path in ["/a", "/b", "/c", "/d"] {
        let (release, work) = hanging();
        releases.push(release);
        let stuck = run(&threads, "tenant", path, work).await;
        assert!(matches!(stuck, Err(PathError::Stuck { .. })), "{stuck:?}");
    }
    let busy = run(&threads, "tenant", "/e", || ()).await.unwrap_err();
    let expected = "/e was not accessed: all threads for paths of its pod are blocked on others that do not respond \
                    (/a, /b, /c, /d)";
    assert_eq!(busy.to_string(), expected);
    run(&with(&threads, LONG), "other", "/e", || ()).await.unwrap();
    releases.pop();
    run(&with(&threads, LONG), "tenant", "/e", || ()).await.unwrap();
    drop(releases);
    run(&with(&threads, LONG), "tenant", "/a", || ()).await.unwrap();
}

#[tokio::test]
async fn an_owner_who_waits_for_a_thread_keeps_nobody_from_a_filesystem() {
    let threads = PathWork::new(SHORT);
    let mut releases = Vec::new();
    for path in ["/a", "/b", "/c", "/d"] {
        let (release, work) = hanging();
        releases.push(release);
        run(&threads, "tenant", path, work).await.unwrap_err();
    }
    let patient = with(&threads, LONG);
    tokio::select! {
        biased;
        _ = run(&patient, "tenant", "/mnt/nfs/a", || ()) => panic!("it has no thread"),
        done = run(&patient, "other", "/mnt/nfs/b", || 7) => assert_eq!(done.unwrap(), 7),
    }
}

#[tokio::test]
async fn a_panic_is_reported_and_frees_the_thread() {
    let threads = PathWork::new(LONG);
    for _ in 0..6 {
        let panicked = run(&threads, "a", "/a", || panic!("on purpose")).await;
        assert!(matches!(panicked, Err(PathError::Panicked { .. })), "{panicked:?}");
    }
    run(&threads, "a", "/a", || ()).await.unwrap();
}
