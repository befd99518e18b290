//! Something of the host, and what it must be. Pure; nothing of the host is ever removed.

use std::path::Path;

use crate::volume::error::{ContentError, HostError};

/// What a `hostPath` must be (Kubernetes docs, "hostPath volume types").
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::volume) enum Is {
    Anything,
    Directory,
    DirectoryOrCreate,
    File,
    FileOrCreate,
    Socket,
    CharDevice,
    BlockDevice,
}

/// What is at a path, links followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::volume) enum Found {
    Nothing,
    Directory,
    File,
    Socket,
    CharDevice,
    BlockDevice,
    Other,
}

/// What has to be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::volume) enum Make {
    Directory,
    File,
}

impl Is {
    /// From the API's name of the type.
    pub(in crate::volume) fn from_api(name: Option<&str>) -> Result<Self, ContentError> {
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

/// What is to be made at `path`, if anything; an error, in upstream's words, if what is there is something else.
pub(in crate::volume) fn check(path: &Path, is: Is, found: Found) -> Result<Option<Make>, HostError> {
    let (desired_volume, described) = match (is, found) {
        (Is::Anything, _) => return Ok(None),
        (Is::DirectoryOrCreate, Found::Nothing) => return Ok(Some(Make::Directory)),
        (Is::FileOrCreate, Found::Nothing) => return Ok(Some(Make::File)),
        (Is::Directory | Is::DirectoryOrCreate, _) => (Found::Directory, "directory"),
        (Is::File | Is::FileOrCreate, _) => (Found::File, "file"),
        (Is::Socket, _) => (Found::Socket, "socket file"),
        (Is::CharDevice, _) => (Found::CharDevice, "character device"),
        (Is::BlockDevice, _) => (Found::BlockDevice, "block device"),
    };
    if found == desired_volume {
        return Ok(None);
    }
    Err(HostError::HostPath(format!("hostPath type check failed: {} is not a {described}", path.display())))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TYPES: [Is; 8] = [
        Is::Anything,
        Is::Directory,
        Is::DirectoryOrCreate,
        Is::File,
        Is::FileOrCreate,
        Is::Socket,
        Is::CharDevice,
        Is::BlockDevice,
    ];

    #[test]
    fn each_type_takes_what_it_names_and_makes_only_what_it_may() {
        let of = |is, found| check(Path::new("/x"), is, found).map_err(|error| error.to_string());
        for (found, fits) in [
            (Found::Directory, vec![Is::Anything, Is::Directory, Is::DirectoryOrCreate]),
            (Found::File, vec![Is::Anything, Is::File, Is::FileOrCreate]),
            (Found::Socket, vec![Is::Anything, Is::Socket]),
            (Found::CharDevice, vec![Is::Anything, Is::CharDevice]),
            (Found::BlockDevice, vec![Is::Anything, Is::BlockDevice]),
            (Found::Other, vec![Is::Anything]),
        ] {
            for is in TYPES {
                assert_eq!(of(is, found).is_ok(), fits.contains(&is), "{is:?} {found:?}");
                assert!(!matches!(of(is, found), Ok(Some(_))), "what is there is not made again");
            }
        }
        assert_eq!(of(Is::Anything, Found::Nothing), Ok(None));
        assert_eq!(of(Is::DirectoryOrCreate, Found::Nothing), Ok(Some(Make::Directory)));
        assert_eq!(of(Is::FileOrCreate, Found::Nothing), Ok(Some(Make::File)));
        let message = of(Is::Socket, Found::Nothing).unwrap_err();
        assert_eq!(message, "hostPath type check failed: /x is not a socket file");
    }
}
