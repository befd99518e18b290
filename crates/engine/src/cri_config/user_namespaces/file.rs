//! The file with a pod's ID range in the pod's directory. Its format is the stock kubelet's, so that either finds the other's ranges.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use hostlet_base::PodUid;
use hostlet_host::{PodDirs, replace_file};
use serde::{Deserialize, Serialize};

use super::IdRange;
use crate::cri_config::dirs::{PodDirError, remove_file};

const MODE: u32 = 0o600;

/// Why the file of a pod cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum MappingError {
    /// The pod's UID is no name of a directory.
    #[error("the UID {0:?} is no name of a directory")]
    Uid(PodUid),
    /// It cannot be read.
    #[error("cannot read {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        source: io::Error,
    },
    /// It cannot be written.
    #[error("cannot write {}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        source: io::Error,
    },
    /// It is no JSON of mappings.
    #[error("invalid user namespace mappings file {}", path.display())]
    Parse {
        /// The file.
        path: PathBuf,
        source: serde_json::Error,
    },
    /// Its mappings are not what a kubelet writes: one for users and the same for groups, from ID 0.
    #[error("invalid user namespace configuration in {}", path.display())]
    Mappings {
        /// The file.
        path: PathBuf,
    },
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Mappings {
    uid_mappings: Vec<Mapping>,
    gid_mappings: Vec<Mapping>,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Mapping {
    host_id: u32,
    container_id: u32,
    length: u32,
}

fn path(root: &Path, uid: &PodUid) -> Result<PathBuf, MappingError> {
    let dirs = PodDirs::new(root, uid).ok_or_else(|| MappingError::Uid(uid.clone()))?;
    Ok(dirs.id_range())
}

/// The range of a pod, if it has one. Blocking.
pub(super) fn read(root: &Path, uid: &PodUid) -> Result<Option<IdRange>, MappingError> {
    let path = path(root, uid)?;
    let content = match fs::read(&path) {
        Ok(content) if content.is_empty() => return Ok(None),
        Ok(content) => content,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(source) => return Err(MappingError::Read { path, source }),
    };
    let mappings: Mappings = match serde_json::from_slice(&content) {
        Ok(mappings) => mappings,
        Err(source) => return Err(MappingError::Parse { path, source }),
    };
    match (&*mappings.uid_mappings, &*mappings.gid_mappings) {
        ([users], [groups]) if users == groups && users.container_id == 0 => {
            Ok(Some(IdRange { first: users.host_id, length: users.length }))
        }
        _ => Err(MappingError::Mappings { path }),
    }
}

/// Writes the range of a pod, which has a directory. Durable. Blocking.
pub(super) fn write(root: &Path, uid: &PodUid, range: IdRange) -> Result<(), MappingError> {
    let path = path(root, uid)?;
    let mapping = Mapping { host_id: range.first, container_id: 0, length: range.length };
    let mappings = Mappings { uid_mappings: vec![mapping], gid_mappings: vec![mapping] };
    let written = serde_json::to_vec(&mappings).map_err(io::Error::other);
    let written = written.and_then(|content| replace_file(&path, &content, MODE));
    written.map_err(|source| MappingError::Write { path, source })
}

/// Removes the file of a pod. Blocking. Idempotent.
pub(in crate::cri_config) fn remove_mappings(root: &Path, uid: &PodUid) -> Result<(), PodDirError> {
    PodDirs::new(root, uid).map_or(Ok(()), |dirs| remove_file(&dirs.id_range()))
}
