//! Reports changes of logs to their followers, with one notifier for all of them: a notifier has a thread, and of inotify's instances
//! a host has few. Only hints: followers also look periodically.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use notify::event::{AccessKind, AccessMode};
use notify::{Event, EventKind, RecommendedWatcher, RecursiveMode, Watcher};
use parking_lot::Mutex;
use tokio::sync::watch;

/// The followed directories of logs. Cheap to clone; clones share one notifier, which exists while something is followed.
#[derive(Clone, Debug, Default)]
pub struct LogWatches(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    /// Locked first, and never by the notifier's thread, which answers while this is locked.
    notifier: Mutex<Notifier>,
    followed: Arc<Mutex<Followed>>,
}

/// The senders by directory. Each has a receiver per follower.
type Followed = HashMap<PathBuf, watch::Sender<()>>;

#[derive(Debug, Default)]
struct Notifier {
    watcher: Option<RecommendedWatcher>,
    /// Whether its last failure was logged.
    has_failed: bool,
}

/// One follower's changes, until dropped.
pub(super) struct LogWatch {
    watches: LogWatches,
    directory: PathBuf,
    changes: watch::Receiver<()>,
}

impl LogWatches {
    /// Reports the changes in the directory of a log from now on. Blocks briefly.
    pub(super) fn follow(&self, log: &Path) -> LogWatch {
        let directory = log.parent().unwrap_or(log).to_owned();
        let mut notifier = self.0.notifier.lock();
        let (changes, is_first) = {
            let mut followed = self.0.followed.lock();
            let sender = followed.entry(directory.clone()).or_insert_with(|| watch::Sender::new(()));
            (sender.subscribe(), sender.receiver_count() == 1)
        };
        if is_first {
            match self.watch(&mut notifier, &directory) {
                Ok(()) => notifier.has_failed = false,
                Err(error) if !notifier.has_failed => {
                    notifier.has_failed = true;
                    let directory = directory.display();
                    tracing::warn!(%directory, %error, "cannot watch logs for changes; followers read them every second");
                }
                Err(_) => {}
            }
        }
        LogWatch { watches: self.clone(), directory, changes }
    }

    fn watch(&self, notifier: &mut Notifier, directory: &Path) -> notify::Result<()> {
        let watcher = match &mut notifier.watcher {
            Some(watcher) => watcher,
            none @ None => {
                let followed = self.0.followed.clone();
                none.insert(notify::recommended_watcher(move |event| report(&followed.lock(), event))?)
            }
        };
        watcher.watch(directory, RecursiveMode::NonRecursive)
    }
}

impl LogWatch {
    /// Waits for a change since the last one. Cancel-safe: a change counts as seen only when this returns.
    pub(super) async fn changed(&mut self) {
        if self.changes.changed().await.is_err() {
            // Its sender lives as long as it has a receiver.
            std::future::pending().await
        }
    }
}

impl Drop for LogWatch {
    fn drop(&mut self) {
        let mut notifier = self.watches.0.notifier.lock();
        let (is_last, is_last_of_all) = {
            let mut followed = self.watches.0.followed.lock();
            let is_last = followed.get(&self.directory).is_some_and(|sender| sender.receiver_count() == 1);
            if is_last {
                followed.remove(&self.directory);
            }
            (is_last, followed.is_empty())
        };
        if is_last_of_all {
            notifier.watcher = None;
        } else if is_last && let Some(watcher) = &mut notifier.watcher {
            // Already removed if the directory is.
            let _ = watcher.unwatch(&self.directory);
        }
    }
}

/// Notifies the followers of what an event is about; all of them if events were lost.
fn report(followed: &Followed, event: notify::Result<Event>) {
    let notify = |sender: &watch::Sender<()>| sender.send_replace(());
    match event {
        Ok(event) if !event.need_rescan() => {
            // Our own reads open and close files.
            let is_read = match event.kind {
                EventKind::Access(access) => access != AccessKind::Close(AccessMode::Write),
                EventKind::Any
                | EventKind::Create(_)
                | EventKind::Modify(_)
                | EventKind::Remove(_)
                | EventKind::Other => false,
            };
            let directories = event.paths.iter().filter(|_| !is_read).filter_map(|path| path.parent());
            directories.filter_map(|directory| followed.get(directory)).for_each(notify);
        }
        Ok(_) | Err(_) => followed.values().for_each(notify),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::time::Duration;

    use tokio::time::timeout;

    use super::*;

    const PATIENCE: Duration = Duration::from_secs(60);

    #[tokio::test]
    async fn followers_share_a_notifier_that_ends_with_the_last_one() {
        let root = tempfile::tempdir().unwrap();
        let log = |name: &str| root.path().join(name).join("0.log");
        for name in ["a", "b"] {
            fs::create_dir(root.path().join(name)).unwrap();
            fs::write(log(name), "").unwrap();
        }
        let watches = LogWatches::default();
        let (mut first, mut second, other) =
            (watches.follow(&log("a")), watches.follow(&log("a")), watches.follow(&log("b")));
        fs::write(log("a"), "x").unwrap();
        timeout(PATIENCE, first.changed()).await.unwrap();
        timeout(PATIENCE, second.changed()).await.unwrap();
        assert!(!other.changes.has_changed().unwrap());
        drop(first);
        // What is left of the first change.
        while timeout(Duration::from_millis(50), second.changed()).await.is_ok() {}
        fs::rename(log("a"), root.path().join("a/0.log.20260101-000000")).unwrap();
        timeout(PATIENCE, second.changed()).await.unwrap();
        drop(second);
        assert!(watches.0.notifier.lock().watcher.is_some());
        fs::remove_dir_all(root.path().join("b")).unwrap();
        drop(other);
        assert!(watches.0.notifier.lock().watcher.is_none() && watches.0.followed.lock().is_empty());
    }

    #[tokio::test]
    async fn a_missing_directory_is_no_error() {
        let watches = LogWatches::default();
        let mut watch = watches.follow(Path::new("/nowhere/at/all/0.log"));
        assert!(timeout(Duration::from_millis(50), watch.changed()).await.is_err());
    }
}
