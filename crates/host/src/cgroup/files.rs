//! Reads and writes single files and directories of cgroupfs, with errors that name them. Knows no layout. Blocks only briefly:
//! cgroupfs is in memory.

use std::fs::{self, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};

use super::CgroupError;

/// The trimmed content of a file.
pub(super) fn read(path: &Path) -> Result<String, CgroupError> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(text.trim().to_owned()),
        Err(source) => Err(CgroupError::Read { path: path.to_owned(), source }),
    }
}

/// Like [`read`], with `None` if the file does not exist.
pub(super) fn read_if_present(path: &Path) -> Result<Option<String>, CgroupError> {
    match read(path) {
        Ok(text) => Ok(Some(text)),
        Err(CgroupError::Read { source, .. }) if is_missing(&source) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Writes a controller file in a single write, as cgroupfs requires. Never creates the file.
pub(super) fn write(path: &Path, value: &str) -> Result<(), CgroupError> {
    OpenOptions::new()
        .write(true)
        .truncate(true)
        .open(path)
        .and_then(|mut file| file.write_all(value.as_bytes()))
        .map_err(|source| CgroupError::Write { path: path.to_owned(), value: value.to_owned(), source })
}

/// Creates a directory; returns whether it did not exist.
pub(super) fn create(path: &Path) -> Result<bool, CgroupError> {
    match fs::create_dir(path) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(false),
        Err(source) => Err(CgroupError::Create { path: path.to_owned(), source }),
    }
}

/// The names of the child cgroups; empty if the cgroup does not exist.
pub(super) fn children(path: &Path) -> Result<Vec<String>, CgroupError> {
    let list = || -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(path)? {
            let entry = entry?;
            if entry.file_type()?.is_dir() {
                // A name that is not UTF-8 is not from hostlet.
                names.extend(entry.file_name().into_string());
            }
        }
        Ok(names)
    };
    match list() {
        Ok(names) => Ok(names),
        Err(error) if is_missing(&error) => Ok(Vec::new()),
        Err(source) => Err(CgroupError::List { path: path.to_owned(), source }),
    }
}

/// A cgroup and its descendants, children before parents; empty if it does not exist.
pub(super) fn leaf_first(path: &Path) -> Result<Vec<PathBuf>, CgroupError> {
    let mut found = Vec::new();
    let mut unvisited = if path.is_dir() { vec![path.to_owned()] } else { Vec::new() };
    while let Some(cgroup) = unvisited.pop() {
        unvisited.extend(children(&cgroup)?.into_iter().map(|name| cgroup.join(name)));
        found.push(cgroup);
    }
    found.reverse();
    Ok(found)
}

/// Removes an empty cgroup. Succeeds if it does not exist.
pub(super) fn remove(path: &Path) -> Result<(), CgroupError> {
    match fs::remove_dir(path) {
        Err(error) if !is_missing(&error) => {
            Err(CgroupError::Remove { path: path.to_owned(), source: error })
        }
        Ok(()) | Err(_) => Ok(()),
    }
}

/// Whether an error means that the cgroup does not exist. Reading an open file of a removed cgroup gives `ENODEV`.
fn is_missing(error: &io::Error) -> bool {
    error.kind() == ErrorKind::NotFound || error.raw_os_error() == Some(nix::errno::Errno::ENODEV as i32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn children_come_before_parents_and_files_do_not_count() {
        let dir = tempfile::tempdir().unwrap();
        let top = dir.path().join("top");
        fs::create_dir_all(top.join("a/b")).unwrap();
        fs::create_dir_all(top.join("c")).unwrap();
        fs::write(top.join("cpu.shares"), "2").unwrap();
        let order = leaf_first(&top).unwrap();
        let place = |path: PathBuf| order.iter().position(|found| *found == path).unwrap();
        assert_eq!(order.len(), 4);
        assert!(place(top.join("a/b")) < place(top.join("a")));
        assert_eq!(place(top), 3);
    }

    #[test]
    fn a_missing_cgroup_is_empty_and_removed() {
        let dir = tempfile::tempdir().unwrap();
        let nothing = dir.path().join("nothing");
        assert!(leaf_first(&nothing).unwrap().is_empty());
        assert!(children(&nothing).unwrap().is_empty());
        assert_eq!(read_if_present(&nothing).unwrap(), None);
        remove(&nothing).unwrap();
        assert!(matches!(write(&nothing, "1"), Err(CgroupError::Write { .. })), "a setting is never created");
    }

    #[test]
    fn errors_name_path_and_operation() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("file"), "").unwrap();
        let message = remove(dir.path()).unwrap_err().to_string();
        assert_eq!(message, format!("cannot remove cgroup {}", dir.path().display()));
    }
}
