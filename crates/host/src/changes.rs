//! Pending changes of a watch: that something changed, whether writes are complete, and on request which files were deleted. Tracks
//! no other files.

use std::collections::{BTreeSet, HashSet};
use std::path::PathBuf;

use notify::event::{CreateKind, ModifyKind, RenameMode};
use notify::{Event, EventKind};
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::Notify;

/// State of the changes at a watched path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// All written files are closed or renamed into place.
    Complete,
    /// The same, and the last event was a removal, which is often followed by a new file at once.
    Removed,
    /// A file was created or written and not closed since.
    Writing,
}

/// The changes reported by a [`super::Watch`]. Unread changes are merged.
#[derive(Debug, Default)]
pub struct Changes {
    notify: Notify,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    writing: HashSet<PathBuf>,
    is_removal: bool,
    /// What was deleted since it was taken; none if nobody takes it.
    deleted: Option<BTreeSet<PathBuf>>,
}

impl Changes {
    /// Changes that also report which files were deleted, even if they exist again.
    pub fn with_deletions() -> Self {
        let state = State { deleted: Some(BTreeSet::new()), ..State::default() };
        Self { state: Mutex::new(state), ..Self::default() }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Every statement under the lock leaves the state consistent.
        self.state.lock()
    }

    /// Waits for a change since the last call. Cancel-safe: a change is consumed only when this returns.
    pub async fn next(&self) {
        self.notify.notified().await;
    }

    /// The state of the changes.
    pub fn progress(&self) -> Progress {
        let state = self.lock();
        match (state.writing.is_empty(), state.is_removal) {
            (false, _) => Progress::Writing,
            (true, true) => Progress::Removed,
            (true, false) => Progress::Complete,
        }
    }

    /// Takes the paths that were deleted since the last call; a file that was renamed was not.
    pub fn take_deleted(&self) -> BTreeSet<PathBuf> {
        self.lock().deleted.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// Stops waiting for files being written: links, for example, are created but never closed.
    pub fn forget_writing(&self) {
        self.lock().writing.clear();
    }

    /// Reports a possible change.
    pub(super) fn report(&self) {
        self.notify.notify_one();
    }

    /// Applies an event that is a change.
    pub fn apply(&self, event: &Event) {
        {
            let mut state = self.lock();
            state.is_removal = is_removal(&event.kind);
            if let (EventKind::Remove(_), Some(deleted)) = (&event.kind, &mut state.deleted) {
                deleted.extend(event.paths.iter().cloned());
            }
            for path in &event.paths {
                match begins(&event.kind) {
                    true if state.writing.contains(path) => {}
                    true => drop(state.writing.insert(path.clone())),
                    false => drop(state.writing.remove(path)),
                }
            }
        }
        self.report();
    }
}

/// Whether the file is incomplete until closed.
fn begins(kind: &EventKind) -> bool {
    match kind {
        EventKind::Create(kind) => *kind != CreateKind::Folder,
        EventKind::Modify(kind) => matches!(kind, ModifyKind::Data(_)),
        EventKind::Access(_) | EventKind::Remove(_) | EventKind::Any | EventKind::Other => false,
    }
}

fn is_removal(kind: &EventKind) -> bool {
    matches!(kind, EventKind::Remove(_) | EventKind::Modify(ModifyKind::Name(RenameMode::From)))
}

#[cfg(test)]
mod tests {
    use notify::event::{AccessKind, AccessMode, DataChange, RemoveKind};

    use super::*;

    #[test]
    fn files_are_being_written_until_closed() {
        let changes = Changes::default();
        let heed = |kind, path: &str| {
            changes.apply(&Event::new(kind).add_path(path.into()));
            changes.progress()
        };
        let close = EventKind::Access(AccessKind::Close(AccessMode::Write));
        let write = EventKind::Modify(ModifyKind::Data(DataChange::Any));
        assert_eq!(heed(EventKind::Create(CreateKind::File), "a"), Progress::Writing);
        assert_eq!(heed(write, "b"), Progress::Writing);
        assert_eq!(heed(close, "a"), Progress::Writing);
        assert_eq!(heed(close, "b"), Progress::Complete);
        assert_eq!(heed(write, "b"), Progress::Writing);
        assert_eq!(heed(EventKind::Remove(RemoveKind::File), "b"), Progress::Removed);
        assert_eq!(heed(EventKind::Create(CreateKind::Folder), "d"), Progress::Complete);
        assert_eq!(heed(EventKind::Create(CreateKind::File), "link"), Progress::Writing);
        changes.forget_writing();
        assert_eq!(changes.progress(), Progress::Complete);
    }

    #[test]
    fn a_deleted_file_is_known_once() {
        let changes = Changes::with_deletions();
        let heed = |kind, path: &str| changes.apply(&Event::new(kind).add_path(path.into()));
        heed(EventKind::Remove(RemoveKind::File), "a");
        heed(EventKind::Create(CreateKind::File), "a");
        heed(EventKind::Modify(ModifyKind::Name(RenameMode::From)), "b");
        assert_eq!(changes.take_deleted(), [PathBuf::from("a")].into());
        assert!(changes.take_deleted().is_empty());
        assert!(Changes::default().take_deleted().is_empty());
    }
}
