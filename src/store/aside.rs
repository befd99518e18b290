//! Stores that were set aside: for whoever looks into what happened. They hold what pods were given, so nobody else may read
//! them, few are kept, and none for long. Touches no file that was not named here. Blocks its thread.

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

/// How many are kept: enough to look into what happened, and no way to fill a disk.
const KEPT: usize = 3;

/// How long one is kept.
const AGE_MOST: Duration = Duration::from_secs(7 * 24 * 3600);

/// When one was set aside, as its name says it.
const STAMP: &str = "%Y%m%dT%H%M%S%.3fZ";

/// Renames what is at `path`, so that a new file can take its place. Answers the new name.
pub(super) fn set_aside(path: &Path, now: Timestamp) -> Result<PathBuf, FileError> {
    let aside = path.with_added_extension(format!("aside-{}", now.strftime(STAMP)));
    fs::rename(path, &aside).map_err(FileError::io("set aside"))?;
    tidy(path, now);
    Ok(aside)
}

/// Closes what was set aside of `path` to everybody else, and removes the oldest beyond those that are kept, and what is
/// too old. What cannot be done is done the next time.
pub(super) fn tidy(path: &Path, now: Timestamp) {
    let mut all = match all(path) {
        Ok(all) => all,
        Err(error) => {
            tracing::warn!(store = %path.display(), %error, "cannot look for stores that were set aside");
            return;
        }
    };
    // A clock that was set back makes none older.
    all.sort();
    let surplus = all.len().saturating_sub(KEPT);
    for (n, (since, aside)) in all.into_iter().enumerate() {
        let reason = match Duration::try_from(now.duration_since(since)) {
            _ if n < surplus => "there are newer ones",
            Ok(age) if age > AGE_MOST => "it is older than 7 days",
            Ok(_) | Err(_) => {
                close(&aside);
                continue;
            }
        };
        match fs::remove_file(&aside) {
            Ok(()) => {
                tracing::info!(file = %aside.display(), reason, "removed a store that was set aside");
            }
            // A directory in place of the file may hold anything, so it stays.
            Err(error) if error.kind() == io::ErrorKind::IsADirectory => {}
            Err(error) => {
                tracing::warn!(file = %aside.display(), %error, "cannot remove a store that was set aside");
            }
        }
    }
}

/// Takes a file's rights from everybody but its owner. What is no file, and what a link leads to, stays as it is.
fn close(aside: &Path) {
    let opened = OpenOptions::new().read(true).custom_flags(flags()).open(aside);
    let closed = opened.and_then(|file| {
        let metadata = file.metadata()?;
        if metadata.is_file() && metadata.permissions().mode() & 0o7777 != 0o600 {
            file.set_permissions(Permissions::from_mode(0o600))?;
            tracing::info!(file = %aside.display(), "closed a store that was set aside to other users");
        }
        Ok(())
    });
    if let Err(error) = closed
        && fs::symlink_metadata(aside).is_ok_and(|found| found.is_file())
    {
        tracing::warn!(file = %aside.display(), %error, "cannot close a store that was set aside to other users");
    }
}

/// What was set aside, and when.
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
    fn nobody_else_reads_what_was_set_aside() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("store");
        let aside = spoiled(&path, hours(0));
        assert_eq!(fs::metadata(&aside).unwrap().mode() & 0o7777, 0o600);
        // What an earlier daemon left open is closed too, but nothing that a link leads to.
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
    fn what_was_set_aside_goes_after_a_week_and_nothing_else_does() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("store");
        let (old, new) = (spoiled(&path, hours(0)), spoiled(&path, hours(24)));
        let mine = directory.path().join("store.aside-mine");
        fs::write(&mine, "").unwrap();
        tidy(&path, hours(7 * 24));
        assert!(old.exists() && new.exists());
        tidy(&path, hours(7 * 24 + 1));
        assert!(!old.exists() && new.exists() && mine.exists());
        // A clock that is set back removes nothing.
        tidy(&path, hours(-1000));
        assert!(new.exists());
    }
}
