//! The desired files of a volume, and the rules for their paths. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// Maximum bytes of a file name.
const MAX_NAME: usize = 255;
/// Maximum bytes of a path.
const MAX_PATH: usize = 4096;

/// A desired file.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct File {
    /// Its content.
    pub(super) data: Vec<u8>,
    /// Its permissions.
    pub(super) mode: u32,
    /// Its owner; `None` for the daemon's user.
    pub(super) uid: Option<u32>,
}

/// Secrets are never printed.
impl fmt::Debug for File {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes, mode {:o}, uid {:?}", self.data.len(), self.mode, self.uid)
    }
}

/// Files by their normalized relative paths.
pub(super) type Files = BTreeMap<String, File>;

/// Why a path is invalid. The wording is upstream's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PathError {
    /// An empty path.
    #[error("invalid path: must not be empty: \"\"")]
    Empty,
    /// An absolute path.
    #[error("invalid path: must be relative path: {0}")]
    Absolute(String),
    /// A path that is too long.
    #[error("invalid path: must be less than or equal to {MAX_PATH} characters")]
    TooLong,
    /// A path with `..`.
    #[error("invalid path: must not contain '..': {0}")]
    Backsteps(String),
    /// A name that is too long.
    #[error("invalid path: filenames must be less than or equal to {MAX_NAME} characters")]
    NameTooLong,
    /// A name that is reserved for the volume's internal links and directories.
    #[error("invalid path: must not start with '..': {0}")]
    Reserved(String),
    /// A NUL character.
    #[error("invalid path: must not contain a null character")]
    Null,
    /// A path that is both a file and a directory.
    #[error("invalid path: is both a file and a directory: {0}")]
    FileAndDirectory(String),
}

/// Normalizes a path (`a//./b` becomes `a/b`), if it stays within the volume.
pub(super) fn clean_path(path: &str) -> Result<String, PathError> {
    if path.is_empty() {
        return Err(PathError::Empty);
    }
    if path.starts_with('/') {
        return Err(PathError::Absolute(path.to_owned()));
    }
    if path.len() > MAX_PATH {
        return Err(PathError::TooLong);
    }
    if path.contains('\0') {
        return Err(PathError::Null);
    }
    let names: Vec<&str> = path.split('/').filter(|name| !matches!(*name, "" | ".")).collect();
    if names.contains(&"..") {
        return Err(PathError::Backsteps(path.to_owned()));
    }
    if names.iter().any(|name| name.len() > MAX_NAME) {
        return Err(PathError::NameTooLong);
    }
    match names.first() {
        None => Err(PathError::Empty),
        Some(first) if first.starts_with("..") => Err(PathError::Reserved(path.to_owned())),
        Some(_) => Ok(names.join("/")),
    }
}

/// Checks that no file is also a directory of another file.
pub(super) fn check_tree(files: &Files) -> Result<(), PathError> {
    let parents: BTreeSet<&str> = files.keys().flat_map(|path| parents(path)).collect();
    match files.keys().find(|path| parents.contains(path.as_str())) {
        Some(path) => Err(PathError::FileAndDirectory(path.clone())),
        None => Ok(()),
    }
}

/// The parent directories of a file in its volume: `a/b` and `a` for `a/b/c`.
pub(super) fn parents(path: &str) -> impl Iterator<Item = &str> {
    path.match_indices('/').map(|(at, _)| &path[..at])
}

/// The top-level names of the files with the owner of each link: that of the file if the name is its whole path.
pub(super) fn top_names(files: &Files) -> BTreeMap<&str, Option<u32>> {
    files
        .iter()
        .map(|(path, file)| match path.split_once('/') {
            Some((first, _)) => (first, None),
            None => (path.as_str(), file.uid),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use std::path::{Component, Path};

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn invalid_paths_have_their_errors() {
        for (path, clean) in
            [("a", "a"), ("a/b", "a/b"), ("./a//b/.", "a/b"), (".a", ".a"), ("a/..b", "a/..b"), ("...", "")]
        {
            match clean {
                "" => assert!(clean_path(path).is_err(), "{path}"),
                clean => assert_eq!(clean_path(path).unwrap(), clean),
            }
        }
        let of = |path: &str| clean_path(path).unwrap_err().to_string();
        assert_eq!(of(""), "invalid path: must not be empty: \"\"");
        assert_eq!(of("."), "invalid path: must not be empty: \"\"");
        assert_eq!(of("/etc/passwd"), "invalid path: must be relative path: /etc/passwd");
        assert_eq!(of("a/../b"), "invalid path: must not contain '..': a/../b");
        assert_eq!(of("..data"), "invalid path: must not start with '..': ..data");
        assert_eq!(
            of(&"a".repeat(256)),
            "invalid path: filenames must be less than or equal to 255 characters"
        );
        assert_eq!(of(&"a/".repeat(2049)), "invalid path: must be less than or equal to 4096 characters");
    }

    #[test]
    fn a_file_cannot_be_a_directory() {
        let file = File { data: vec![1, 2, 3], mode: 0o644, uid: None };
        assert_eq!(format!("{file:?}"), "3 bytes, mode 644, uid None");
        let of =
            |paths: &[&str]| paths.iter().map(|path| (path.to_string(), file.clone())).collect::<Files>();
        assert_eq!(check_tree(&of(&["a", "b/c", "b/d", "e/f/g", "e/h"])), Ok(()));
        assert_eq!(check_tree(&of(&["a", "a/b"])), Err(PathError::FileAndDirectory("a".into())));
        assert_eq!(check_tree(&of(&["a/b/c/d", "a/b"])), Err(PathError::FileAndDirectory("a/b".into())));
    }

    proptest! {
        #[test]
        fn no_path_leaves_the_volume_or_uses_reserved_names(path in "[a./\u{0}é]{0,12}") {
            if let Ok(clean) = clean_path(&path) {
                prop_assert!(Path::new(&clean).components().all(|c| matches!(c, Component::Normal(_))));
                prop_assert!(!clean.starts_with("..") && !clean.contains('\0'));
                prop_assert_eq!(clean_path(&clean), Ok(clean));
            }
        }
    }
}
