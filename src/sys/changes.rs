//! What a watch heard and nobody has acted on yet: that something changed, and whether it is complete. Knows no files but
//! those that are being written.

use std::collections::HashSet;
use std::path::PathBuf;

use notify::event::{CreateKind, ModifyKind, RenameMode};
use notify::{Event, EventKind};
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::Notify;

/// How far the changes at a watched path have come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// Whatever was written is closed or renamed into place.
    Complete,
    /// As before, and the last that was heard is that something went. What goes often comes back at once.
    Removed,
    /// Some file was made or written to, and not closed since.
    Writing,
}

/// The changes a [`super::Watch`] tells of. Told again and again before anybody looks, they count as one.
#[derive(Debug, Default)]
pub struct Changes {
    told: Notify,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    writing: HashSet<PathBuf>,
    is_removal: bool,
}

impl Changes {
    fn lock(&self) -> MutexGuard<'_, State> {
        // Every statement under the lock leaves the state valid.
        self.state.lock()
    }

    /// Waits until something changed since this last returned. Cancel-safe: a change is taken only when this returns.
    pub async fn next(&self) {
        self.told.notified().await;
    }

    /// How far the changes have come.
    pub fn progress(&self) -> Progress {
        let state = self.lock();
        match (state.writing.is_empty(), state.is_removal) {
            (false, _) => Progress::Writing,
            (true, true) => Progress::Removed,
            (true, false) => Progress::Complete,
        }
    }

    /// Gives up waiting for the files that are being written: links, for one, are made and never closed.
    pub fn forget_writing(&self) {
        self.lock().writing.clear();
    }

    /// Says that something may have changed.
    pub(super) fn tell(&self) {
        self.told.notify_one();
    }

    /// Takes in an event that means a change.
    pub(crate) fn heed(&self, event: &Event) {
        {
            let mut state = self.lock();
            state.is_removal = is_removal(&event.kind);
            for path in &event.paths {
                match begins(&event.kind) {
                    true if state.writing.contains(path) => {}
                    true => drop(state.writing.insert(path.clone())),
                    false => drop(state.writing.remove(path)),
                }
            }
        }
        self.tell();
    }
}

/// Whether the file is not complete before it is closed.
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
    fn what_was_begun_and_not_ended_is_being_written() {
        let changes = Changes::default();
        let heed = |kind, path: &str| {
            changes.heed(&Event::new(kind).add_path(path.into()));
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
}
