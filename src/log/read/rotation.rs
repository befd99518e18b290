//! Finds the successor of a rotated file. A kubelet renames `0.log` to `0.log.<YYYYMMDD-HHMMSS>`, makes the runtime open a new
//! `0.log`, and compresses older files.

use std::fs::{self, Metadata};
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::log::LogError;
use crate::log::layout::file_names;

/// Suffixes of rotated logs that are, or are being, compressed.
const COMPRESSED: [&str; 2] = [".gz", ".tmp"];

/// The file after the one with the metadata `own`, which was opened as `current` and possibly renamed since. `None` while it is
/// the current one, or if there is no successor yet. After several rotations it is the rotated file after `own`, unless that is
/// compressed.
pub(super) fn successor(current: &Path, own: &Metadata) -> Result<Option<PathBuf>, LogError> {
    let inspect = |path: &Path| match fs::metadata(path) {
        Ok(found) => Ok(Some(found)),
        Err(e) if e.kind() == ErrorKind::NotFound => Ok(None),
        Err(source) => Err(LogError::Inspect { path: path.to_owned(), source }),
    };
    let is_own = |found: &Metadata| (found.dev(), found.ino()) == (own.dev(), own.ino());
    let newest = inspect(current)?;
    if newest.as_ref().is_some_and(is_own) {
        return Ok(None);
    }
    let (Some(dir), Some(name)) = (current.parent(), current.file_name().and_then(|name| name.to_str()))
    else {
        return Ok(None);
    };
    let mut rotated: Vec<String> = file_names(dir)?
        .into_iter()
        .filter(|other| other.strip_prefix(name).is_some_and(|rest| rest.starts_with('.')))
        .filter(|other| !COMPRESSED.iter().any(|suffix| other.ends_with(suffix)))
        .collect();
    // Their names sort by time.
    rotated.sort();
    let mut is_past_own = false;
    for other in rotated {
        let path = dir.join(other);
        if is_past_own {
            return Ok(Some(path));
        }
        is_past_own = inspect(&path)?.as_ref().is_some_and(is_own);
    }
    Ok(newest.map(|_| current.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rotated_files_are_read_in_order() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        let current = at("0.log");
        fs::write(&current, "a").unwrap();
        let own = fs::metadata(&current).unwrap();
        let next = |own: &Metadata| successor(&current, own).unwrap();
        assert_eq!(next(&own), None);
        fs::rename(&current, at("0.log.20260102-000000")).unwrap();
        assert_eq!(next(&own), None, "the runtime has not opened a new one yet");
        fs::write(&current, "b").unwrap();
        fs::write(at("0.log.20260101-000000"), "older").unwrap();
        assert_eq!(next(&own), Some(current.clone()));
        fs::rename(&current, at("0.log.20260103-000000")).unwrap();
        fs::write(at("0.log.20260102-120000.gz"), "").unwrap();
        fs::write(at("10.log.20260102-130000"), "of another attempt").unwrap();
        assert_eq!(next(&own), Some(at("0.log.20260103-000000")));
        let second = fs::metadata(at("0.log.20260103-000000")).unwrap();
        assert_eq!(next(&second), None);
        fs::write(&current, "c").unwrap();
        assert_eq!(next(&second), Some(current.clone()));
        // A removed or compressed file no longer shows its successor.
        fs::remove_file(at("0.log.20260102-000000")).unwrap();
        assert_eq!(next(&own), Some(current.clone()));
    }
}
