//! What is at a path of the host, and the type that a `hostPath` requires of it. Pure.

use std::path::Path;

use crate::error::{ContentError, HostError};

/// The required type of a `hostPath` (Kubernetes docs, "hostPath volume types").
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PathType {
    Anything,
    Directory,
    DirectoryOrCreate,
    File,
    FileOrCreate,
    Socket,
    CharDevice,
    BlockDevice,
}

/// What is at a path, following links.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    Nothing,
    Directory,
    File,
    Socket,
    CharDevice,
    BlockDevice,
    Other,
}

/// What has to be created.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Make {
    Directory,
    File,
}

impl PathType {
    /// From the API's name of the type.
    pub(crate) fn from_api(name: Option<&str>) -> Result<Self, ContentError> {
        Ok(match name.unwrap_or_default() {
            "" => Self::Anything,
            "Directory" => Self::Directory,
            "DirectoryOrCreate" => Self::DirectoryOrCreate,
            "File" => Self::File,
            "FileOrCreate" => Self::FileOrCreate,
            "Socket" => Self::Socket,
            "CharDevice" => Self::CharDevice,
            "BlockDevice" => Self::BlockDevice,
            other => return Err(ContentError::Unsupported(format!("hostPath type {other:?}"))),
        })
    }
}

/// What to create at `path`, if anything. Fails, with upstream's message, if something of another type is there.
pub(crate) fn check(path: &Path, is: PathType, found: Found) -> Result<Option<Make>, HostError> {
    let (expected, described) = match (is, found) {
        (PathType::Anything, _) => return Ok(None),
        (PathType::DirectoryOrCreate, Found::Nothing) => return Ok(Some(Make::Directory)),
        (PathType::FileOrCreate, Found::Nothing) => return Ok(Some(Make::File)),
        (PathType::Directory | PathType::DirectoryOrCreate, _) => (Found::Directory, "directory"),
        (PathType::File | PathType::FileOrCreate, _) => (Found::File, "file"),
        (PathType::Socket, _) => (Found::Socket, "socket file"),
        (PathType::CharDevice, _) => (Found::CharDevice, "character device"),
        (PathType::BlockDevice, _) => (Found::BlockDevice, "block device"),
    };
    if found == expected {
        return Ok(None);
    }
    Err(HostError::HostPath(format!("hostPath type check failed: {} is not a {described}", path.display())))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TYPES: [PathType; 8] = [
        PathType::Anything,
        PathType::Directory,
        PathType::DirectoryOrCreate,
        PathType::File,
        PathType::FileOrCreate,
        PathType::Socket,
        PathType::CharDevice,
        PathType::BlockDevice,
    ];

    #[test]
    fn each_type_takes_what_it_names_and_makes_only_what_it_may() {
        let of = |is, found| check(Path::new("/x"), is, found).map_err(|error| error.to_string());
        for (found, fits) in [
            (Found::Directory, vec![PathType::Anything, PathType::Directory, PathType::DirectoryOrCreate]),
            (Found::File, vec![PathType::Anything, PathType::File, PathType::FileOrCreate]),
            (Found::Socket, vec![PathType::Anything, PathType::Socket]),
            (Found::CharDevice, vec![PathType::Anything, PathType::CharDevice]),
            (Found::BlockDevice, vec![PathType::Anything, PathType::BlockDevice]),
            (Found::Other, vec![PathType::Anything]),
        ] {
            for is in TYPES {
                assert_eq!(of(is, found).is_ok(), fits.contains(&is), "{is:?} {found:?}");
                assert!(!matches!(of(is, found), Ok(Some(_))), "what is there is not made again");
            }
        }
        assert_eq!(of(PathType::Anything, Found::Nothing), Ok(None));
        assert_eq!(of(PathType::DirectoryOrCreate, Found::Nothing), Ok(Some(Make::Directory)));
        assert_eq!(of(PathType::FileOrCreate, Found::Nothing), Ok(Some(Make::File)));
        let message = of(PathType::Socket, Found::Nothing).unwrap_err();
        assert_eq!(message, "hostPath type check failed: /x is not a socket file");
    }
}
