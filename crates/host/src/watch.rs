//! Watches a path for changes. Only hints: users also read periodically. Blocks its caller while setting watches; events arrive on
//! the notifier's thread.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use notify::event::{AccessKind, AccessMode, ModifyKind, RemoveKind};
use notify::{Event, EventKind, RecommendedWatcher, RecursiveMode, Watcher};
use tracing::warn;

use super::Changes;

/// Lists the directories below a path that are watched with it.
type Below = fn(&Path) -> Vec<PathBuf>;

/// Watches a path and its parent directory, in which the path may appear or be replaced.
#[derive(Debug)]
pub struct Watch {
    path: PathBuf,
    below: Below,
    what: &'static str,
    changed: Arc<Changes>,
    /// Set by events that invalidate a watch: a parent directory was removed or renamed.
    stale: Arc<AtomicBool>,
    watcher: Option<RecommendedWatcher>,
    /// The watched directories with their device and inode.
    watched: BTreeMap<PathBuf, (u64, u64)>,
    /// The last logged failure, so that it is logged once.
    failure: Option<String>,
}

impl Watch {
    /// A watch on `path`, which must be absolute, that reports to `changed`. `what` names its content in plural, for the log.
    /// Nothing is watched before the first [`Watch::renew`].
    pub fn new(path: &Path, what: &'static str, changed: Arc<Changes>) -> Self {
        let (path, stale) = (path.to_owned(), Arc::new(AtomicBool::new(false)));
        let (watcher, watched) = (None, BTreeMap::new());
        Self { path, below: |_| Vec::new(), what, changed, stale, watcher, watched, failure: None }
    }

    /// Also watches the directories below the path that `below` lists.
    pub fn with_directories(self, below: Below) -> Self {
        Self { below, ..self }
    }

    /// Whether changes are reported since the last [`Watch::renew`].
    pub fn is_set(&self) -> bool {
        self.watcher.is_some()
    }

    /// Renews the watches: a directory that was replaced or has appeared needs a new one.
    pub fn renew(&mut self) {
        match self.try_renew() {
            Ok(()) => self.failure = None,
            Err(error) => {
                self.watcher = None;
                let message = error.to_string();
                if self.failure.as_ref() != Some(&message) {
                    warn!(path = %self.path.display(), error = message,
                        "cannot watch the {} for changes; they are only read periodically", self.what);
                }
                self.failure = Some(message);
            }
        }
    }

    fn try_renew(&mut self) -> notify::Result<()> {
        let desired = directories(&self.path, self.below);
        let stale = self.stale.swap(false, Ordering::SeqCst);
        if !stale && self.watcher.is_some() && desired == self.watched {
            return Ok(());
        }
        // A new notifier each time: the old one removes watches by path, so late events of a removed directory would remove its
        // successor's watch.
        let mut watcher = notify::recommended_watcher(self.waker())?;
        for directory in desired.keys() {
            watcher.watch(directory, RecursiveMode::NonRecursive)?;
        }
        if directories(&self.path, self.below) != desired {
            // Files that appeared before the watch was set caused no event.
            self.changed.report();
        }
        (self.watcher, self.watched) = (Some(watcher), desired);
        Ok(())
    }

    fn waker(&self) -> impl Fn(notify::Result<Event>) + Send + 'static {
        let (path, changed, stale) = (self.path.clone(), Arc::clone(&self.changed), Arc::clone(&self.stale));
        move |event: notify::Result<Event>| match event {
            Ok(event) => {
                if invalidates_watch(&event, &path) {
                    stale.store(true, Ordering::SeqCst);
                }
                if concerns(&event, &path) {
                    changed.apply(&event);
                }
            }
            // Events may have been lost.
            Err(_) => changed.report(),
        }
    }
}

/// The directories to watch for `path`: itself if it is a directory, those below it, and its nearest existing parent.
fn directories(path: &Path, below: Below) -> BTreeMap<PathBuf, (u64, u64)> {
    let identity = |path: &Path| {
        let metadata = fs::metadata(path).ok().filter(fs::Metadata::is_dir)?;
        Some((path.to_owned(), (metadata.dev(), metadata.ino())))
    };
    let above = path.ancestors().skip(1).find_map(identity);
    let below = below(path);
    identity(path).into_iter().chain(below.iter().filter_map(|path| identity(path))).chain(above).collect()
}

/// Whether an event may be a change at or below `path` or of a parent directory.
fn concerns(event: &Event, path: &Path) -> bool {
    let only_read = match event.kind {
        // Our own reads open and close files, which would loop forever.
        EventKind::Access(access) => access != AccessKind::Close(AccessMode::Write),
        EventKind::Any
        | EventKind::Create(_)
        | EventKind::Modify(_)
        | EventKind::Remove(_)
        | EventKind::Other => false,
    };
    let near = |place: &PathBuf| place.starts_with(path) || path.starts_with(place);
    event.need_rescan() || (!only_read && (event.paths.is_empty() || event.paths.iter().any(near)))
}

/// Whether an event shows that `path`, a parent directory or a directory below was replaced. The new one can have the same inode.
fn invalidates_watch(event: &Event, path: &Path) -> bool {
    let replaced = matches!(event.kind, EventKind::Remove(_) | EventKind::Modify(ModifyKind::Name(_)));
    let is_directory = event.kind == EventKind::Remove(RemoveKind::Folder);
    replaced
        && event
            .paths
            .iter()
            .any(|place| path.starts_with(place) || (is_directory && place.starts_with(path)))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use notify::event::{AccessKind, AccessMode, CreateKind, ModifyKind, RemoveKind};
    use notify::{Event, EventKind};

    use super::{concerns, directories, invalidates_watch};

    #[test]
    fn reads_and_siblings_are_ignored() {
        let event = |kind, path: &str| Event::new(kind).add_path(path.into());
        let heeded = |event: Event| concerns(&event, Path::new("/etc/m"));
        let create = EventKind::Create(CreateKind::File);
        assert!(heeded(event(create, "/etc/m/a.yaml")));
        assert!(heeded(event(create, "/etc/m")));
        assert!(heeded(event(EventKind::Modify(ModifyKind::Any), "/etc")));
        assert!(heeded(event(EventKind::Access(AccessKind::Close(AccessMode::Write)), "/etc/m/a.yaml")));
        assert!(heeded(Event::new(EventKind::Other)));
        assert!(!heeded(event(create, "/etc/passwd")));
        assert!(!heeded(event(EventKind::Access(AccessKind::Open(AccessMode::Any)), "/etc/m/a.yaml")));
        assert!(!heeded(event(EventKind::Access(AccessKind::Close(AccessMode::Read)), "/etc/m/a.yaml")));
    }

    #[test]
    fn a_removed_directory_invalidates_its_watch() {
        let remove = |path: &str| Event::new(EventKind::Remove(RemoveKind::Any)).add_path(path.into());
        for (path, ends) in
            [("/etc/m", true), ("/etc", true), ("/etc/m/a.yaml", false), ("/etc/passwd", false)]
        {
            assert_eq!(invalidates_watch(&remove(path), Path::new("/etc/m")), ends, "{path}");
        }
        let folder = Event::new(EventKind::Remove(RemoveKind::Folder)).add_path("/etc/m/a".into());
        assert!(invalidates_watch(&folder, Path::new("/etc/m")));
    }

    #[test]
    fn the_nearest_directory_above_is_watched_too() {
        let root = tempfile::tempdir().unwrap();
        let at = |name: &str| root.path().join(name);
        std::fs::create_dir_all(at("a/b")).unwrap();
        std::fs::write(at("a/b/pod.yaml"), "").unwrap();
        let watched = |name: &str| directories(&at(name), |_| Vec::new()).into_keys().collect::<Vec<_>>();
        let below = directories(&at("a"), |path| vec![path.join("b"), path.join("gone")]);
        assert!(below.into_keys().eq([root.path().to_owned(), at("a"), at("a/b")]));
        assert_eq!(watched("a/b"), [at("a"), at("a/b")]);
        assert_eq!(watched("a/b/pod.yaml"), [at("a/b")]);
        assert_eq!(watched("a/c/d/e"), [at("a")]);
    }
}
