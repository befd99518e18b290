//! Damaged stores that were set aside for inspection. They may contain secrets from environments, so only root may read them,
//! and only a few are kept for a limited time. Touches only files named by this module. Blocks its thread.

use std::fs::{self, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;

use super::error::FileError;
use super::place::flags;

/// Maximum number kept: enough for inspection, too few to fill a disk.
const KEPT: usize = 3;

/// Maximum age.
const AGE_MOST: Duration = Duration::from_secs(7 * 24 * 3600);

/// Format of the time in the file name.
const STAMP: &str = "%Y%m%dT%H%M%S%.3fZ";

/// Renames the file at `path` out of the way and returns the new path.
pub(super) fn set_aside(path: &Path, now: Timestamp) -> Result<PathBuf, FileError> {
    let aside = path.with_added_extension(format!("aside-{}", now.strftime(STAMP)));
    fs::rename(path, &aside).map_err(FileError::io("set aside"))?;
    tidy(path, now);
    Ok(aside)
}

/// Restricts the files set aside from `path` to their owner, and removes those that are too many or too old. Failures are
/// retried the next time.
pub(super) fn tidy(path: &Path, now: Timestamp) {
    let mut all = match all(path) {
        Ok(all) => all,
        Err(error) => {
            tracing::warn!(store = %path.display(), %error, "cannot list the stores that were set aside");
            return;
        }
    };
    // A clock that was set back makes no file older.
    all.sort();
    let surplus = all.len().saturating_sub(KEPT);
    for (n, (since, aside)) in all.into_iter().enumerate() {
        let reason = match Duration::try_from(now.duration_since(since)) {
            _ if n < surplus => "there are newer ones",
            Ok(age) if age > AGE_MOST => "it is older than 7 days",
            Ok(_) | Err(_) => {
                restrict(&aside);
                continue;
            }
        };
        match fs::remove_file(&aside) {
            Ok(()) => {
                tracing::info!(file = %aside.display(), reason, "removed a store that was set aside");
            }
            // A directory in the file's place may contain anything, so it is kept.
            Err(error) if error.kind() == io::ErrorKind::IsADirectory => {}
            Err(error) => {
                tracing::warn!(file = %aside.display(), %error, "cannot remove a store that was set aside");
            }
        }
    }
}

/// Restricts a file to its owner. Anything but a regular file, including the target of a link, is left alone.
fn restrict(aside: &Path) {
    let opened = OpenOptions::new().read(true).custom_flags(flags()).open(aside);
    let restricted = opened.and_then(|file| {
        let metadata = file.metadata()?;
        if metadata.is_file() && metadata.permissions().mode() & 0o7777 != 0o600 {
            file.set_permissions(Permissions::from_mode(0o600))?;
            tracing::info!(file = %aside.display(), "restricted a store that was set aside to its owner");
        }
        Ok(())
    });
    if let Err(error) = restricted
        && fs::symlink_metadata(aside).is_ok_and(|found| found.is_file())
    {
        tracing::warn!(file = %aside.display(), %error, "cannot restrict a store that was set aside to its owner");
    }
}

/// The files set aside, with their times.
fn all(path: &Path) -> io::Result<Vec<(Timestamp, PathBuf)>> {
    let (Some(directory), Some(name)) = (path.parent(), path.file_name()) else { return Ok(Vec::new()) };
    let start = format!("{}.aside-", name.to_string_lossy());
    let since = |entry: &fs::DirEntry| {
        let name = entry.file_name();
        let stamp = DateTime::strptime(STAMP, name.to_str()?.strip_prefix(&start)?).ok()?;
        Some(stamp.to_zoned(TimeZone::UTC).ok()?.timestamp())
    };
    let entries = fs::read_dir(directory)?.filter_map(Result::ok);
    Ok(entries.filter_map(|entry| Some((since(&entry)?, entry.path()))).collect())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{MetadataExt, symlink};

    use super::*;

    fn hours(hours: i64) -> Timestamp {
        Timestamp::from_second(1_800_000_000 + hours * 3600).unwrap()
    }

    fn spoiled(path: &Path, now: Timestamp) -> PathBuf {
        fs::write(path, "no store").unwrap();
        fs::set_permissions(path, Permissions::from_mode(0o644)).unwrap();
        set_aside(path, now).unwrap()
    }

    #[test]
    fn files_set_aside_are_readable_by_their_owner_only() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("store");
        let aside = spoiled(&path, hours(0));
        assert_eq!(fs::metadata(&aside).unwrap().mode() & 0o7777, 0o600);
        // A file that an earlier version left readable is restricted too, but not the target of a link.
        fs::set_permissions(&aside, Permissions::from_mode(0o664)).unwrap();
        let elsewhere = directory.path().join("elsewhere");
        fs::write(&elsewhere, "").unwrap();
        fs::set_permissions(&elsewhere, Permissions::from_mode(0o644)).unwrap();
        symlink(&elsewhere, &path).unwrap();
        set_aside(&path, hours(1)).unwrap();
        tidy(&path, hours(2));
        assert_eq!(fs::metadata(&aside).unwrap().mode() & 0o7777, 0o600);
        assert_eq!(fs::metadata(&elsewhere).unwrap().mode() & 0o7777, 0o644);
    }

    #[test]
    fn only_files_set_aside_over_a_week_ago_are_removed() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("store");
        let (old, new) = (spoiled(&path, hours(0)), spoiled(&path, hours(24)));
        let mine = directory.path().join("store.aside-mine");
        fs::write(&mine, "").unwrap();
        tidy(&path, hours(7 * 24));
        assert!(old.exists() && new.exists());
        tidy(&path, hours(7 * 24 + 1));
        assert!(!old.exists() && new.exists() && mine.exists());
        // A clock that was set back removes nothing.
        tidy(&path, hours(-1000));
        assert!(new.exists());
    }
}
