//! Computes the operations from the actual to the desired state of a volume. Pure. Interrupted work shows in the actual state
//! and is completed: a plan needs no memory of earlier ones.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use super::actual::{Actual, Leftover, Present, Root, Tree};
use super::error::{ContentError, HostError};
use super::files::{Files, top_names};
use super::model::{Content, Desired, Store};

/// An operation on the host. A plan may be interrupted after any of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Operation {
    /// Creates the volume's directory, world-writable.
    MakeRoot {
        dir: PathBuf,
    },
    /// Mounts a tmpfs on it.
    Mount {
        dir: PathBuf,
        size: u64,
    },
    MountHugePages {
        dir: PathBuf,
        page_size: u64,
    },
    /// Sets its mode, that of the mount if there is one.
    SetMode {
        dir: PathBuf,
        mode: u32,
    },
    SetGroup {
        dir: PathBuf,
        group: u32,
        written_by_us: bool,
    },
    /// Creates the ready marker.
    Mark {
        meta: PathBuf,
    },
    /// Removes the ready marker.
    Unmark {
        meta: PathBuf,
    },
    /// Writes files into a new directory, which is not visible yet.
    Write {
        dir: PathBuf,
        version: String,
        files: Files,
        group: Option<u32>,
    },
    /// Creates the link of a top-level name.
    Link {
        dir: PathBuf,
        name: String,
        uid: Option<u32>,
        group: Option<u32>,
    },
    /// Makes the files of that directory visible, atomically.
    Publish {
        dir: PathBuf,
        version: String,
        group: Option<u32>,
    },
    /// Removes one entry of the volume's directory.
    Discard {
        dir: PathBuf,
        name: OsString,
    },
    /// Removes the topmost mount on the volume's directory.
    Unmount {
        dir: PathBuf,
    },
    /// Removes the directory with its content, unless something is mounted there.
    Remove {
        dir: PathBuf,
    },
    /// Removes the empty directory on which the volume was mounted.
    RemoveMountPoint {
        dir: PathBuf,
    },
}

/// The operations for one volume, and their result.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Plan {
    pub(super) operations: Vec<Operation>,
    /// Why the volume does not have its desired content.
    pub(super) problem: Option<ContentError>,
    /// Whether the volume is ready after the operations.
    pub(super) usable: bool,
}

/// Plans from `actual` to `desired`. `version` is an unused name for the directory of new files.
pub(super) fn set_up(
    desired: &Desired,
    actual: &Actual,
    root: &Path,
    meta: &Path,
    version: &str,
) -> Result<Plan, HostError> {
    let has_place = match (desired.store, actual.root) {
        (_, Root::NotADirectory) => return Err(HostError::NotADirectory { path: root.to_owned() }),
        (_, Root::Foreign)
        | (Store::Disk, Root::Tmpfs | Root::HugePages)
        | (Store::Memory(_), Root::HugePages)
        | (Store::HugePages(_), Root::Tmpfs) => {
            return Err(HostError::ForeignMount { path: root.to_owned() });
        }
        (_, Root::Absent) | (Store::Memory(_) | Store::HugePages(_), Root::Directory) => false,
        (Store::Disk, Root::Directory)
        | (Store::Memory(_), Root::Tmpfs)
        | (Store::HugePages(_), Root::HugePages) => true,
    };
    let is_made = has_place && actual.ready;
    // The mount will hide the content of the directory.
    let tree = if has_place { actual.tree.clone() } else { Tree::default() };
    if let Content::Unknown(error) = &desired.content {
        let usable = is_made && tree.version.is_some();
        return Ok(Plan { operations: Vec::new(), problem: Some(error.clone()), usable });
    }
    let mut operations = Vec::new();
    if !is_made {
        make(desired, actual, has_place, root, meta, &mut operations);
    }
    if let Content::Ours(files) = &desired.content {
        fill(files, desired.group, &tree, root, version, &mut operations);
    }
    Ok(Plan { operations, problem: None, usable: true })
}

fn make(
    desired: &Desired,
    actual: &Actual,
    has_place: bool,
    root: &Path,
    meta: &Path,
    operations: &mut Vec<Operation>,
) {
    let (dir, meta) = (root.to_owned(), meta.to_owned());
    if actual.ready {
        // As after a reboot. The volume must not count as ready until it is set up again.
        operations.push(Operation::Unmark { meta: meta.clone() });
    }
    match desired.store {
        Store::Disk => operations.push(Operation::MakeRoot { dir: dir.clone() }),
        Store::Memory(_) | Store::HugePages(_) if has_place => {}
        Store::Memory(size) => {
            operations.push(Operation::MakeRoot { dir: dir.clone() });
            operations.push(Operation::Mount { dir: dir.clone(), size });
        }
        Store::HugePages(page_size) => {
            operations.push(Operation::MakeRoot { dir: dir.clone() });
            operations.push(Operation::MountHugePages { dir: dir.clone(), page_size });
        }
    }
    if let Some(mode) = desired.mode {
        operations.push(Operation::SetMode { dir: dir.clone(), mode });
    }
    if let Some(group) = desired.group {
        let written_by_us = desired.directory.is_written_by_us();
        operations.push(Operation::SetGroup { dir, group, written_by_us });
    }
    operations.push(Operation::Mark { meta });
}

/// Upstream's order: files, new names, the switch, then removal of what is no longer needed.
fn fill(
    files: &Files,
    group: Option<u32>,
    tree: &Tree,
    root: &Path,
    version: &str,
    operations: &mut Vec<Operation>,
) {
    let dir = || root.to_owned();
    let discard = |name: &OsString| Operation::Discard { dir: dir(), name: name.clone() };
    // Left over from interrupted attempts, or in the way of a name.
    operations.extend(tree.strays.iter().map(discard));
    let old = tree
        .version
        .as_ref()
        .filter(|_| !tree.files.as_ref().is_some_and(|present| same(files, group, present)));
    let is_current = tree.version.is_some() && old.is_none();
    if !is_current {
        let (version, files) = (version.to_owned(), files.clone());
        operations.push(Operation::Write { dir: dir(), version, files, group });
    }
    let names = top_names(files);
    let fits = |name: &str, uid: Option<u32>| {
        tree.links.get(name).is_some_and(|owner| uid.is_none_or(|uid| uid == *owner))
    };
    for (name, uid) in names.iter().filter(|(name, uid)| !fits(name, **uid)) {
        if tree.links.contains_key(*name) {
            operations.push(discard(&OsString::from(name)));
        }
        operations.push(Operation::Link { dir: dir(), name: (*name).to_owned(), uid: *uid, group });
    }
    if !is_current {
        operations.push(Operation::Publish { dir: dir(), version: version.to_owned(), group });
    }
    let stale = tree.links.keys().filter(|name| !names.contains_key(name.as_str()));
    operations.extend(stale.map(|name| discard(&OsString::from(name))));
    operations.extend(old.map(|old| discard(&OsString::from(old))));
}

fn same(files: &Files, group: Option<u32>, present: &BTreeMap<String, Present>) -> bool {
    files.len() == present.len()
        && files.iter().all(|(path, file)| {
            present.get(path).is_some_and(|present| {
                present.data == file.data
                    && present.mode == file.mode
                    && file.uid.is_none_or(|uid| uid == present.uid)
                    && group.is_none_or(|group| group == present.gid)
            })
        })
}

/// Plans the removal of what is left of a volume.
pub(super) fn tear_down(left: &Leftover) -> Result<Vec<Operation>, HostError> {
    let mut operations = Vec::new();
    operations.extend(left.meta.clone().map(|meta| Operation::Unmark { meta }));
    if let Some(dir) = &left.dir {
        if left.foreign {
            return Err(HostError::ForeignMount { path: dir.clone() });
        }
        operations.extend((0..left.mounts).map(|_| Operation::Unmount { dir: dir.clone() }));
        let dir = dir.clone();
        operations.push(match left.is_external {
            true => Operation::RemoveMountPoint { dir },
            false => Operation::Remove { dir },
        });
    }
    Ok(operations)
}
