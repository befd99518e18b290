//! The preload directory: which files are archives, which are no longer being written, and which are due for import. Listing
//! blocks its thread; the decisions are pure.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use jiff::Timestamp;
use tokio::time::Instant;

use super::target::Target;

/// A file that has not changed for this long is taken to be complete.
const QUIET: Duration = Duration::from_secs(2);
/// File name extensions of archives. The last ones are of formats that are not supported, which is reported.
const ENDINGS: [&str; 9] =
    [".tar", ".tar.gz", ".tgz", ".tar.zst", ".tzst", ".tar.xz", ".txz", ".tar.bz2", ".tar.lz4"];

/// Identifies a version of a file without reading it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stamp {
    device: u64,
    inode: u64,
    size: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ListedArchive {
    stamp: Stamp,
    /// Whether the last write was long enough ago.
    quiet: bool,
}

/// Lists the archives in `directory`. A missing directory counts as empty.
pub(super) fn list(directory: &Path, now: Timestamp) -> io::Result<BTreeMap<PathBuf, ListedArchive>> {
    let entries = match fs::read_dir(directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(BTreeMap::new()),
        entries => entries?,
    };
    let mut archives = BTreeMap::new();
    for entry in entries {
        let name = entry?.file_name();
        let Some(text) = name.to_str().filter(|name| is_archive(name)) else {
            tracing::debug!(file = ?name, "is not named like an image archive");
            continue;
        };
        let path = directory.join(text);
        // Skips files that were removed meanwhile, dangling links, and files that block on open.
        if let Some(metadata) = fs::metadata(&path).ok().filter(Metadata::is_file) {
            archives.insert(path, ListedArchive::of(&metadata, now));
        }
    }
    Ok(archives)
}

fn is_archive(name: &str) -> bool {
    !name.starts_with('.') && ENDINGS.iter().any(|ending| name.ends_with(ending))
}

impl ListedArchive {
    fn of(metadata: &Metadata, now: Timestamp) -> Self {
        let stamp = Stamp {
            device: metadata.dev(),
            inode: metadata.ino(),
            size: metadata.size(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        };
        let age = now.as_second().saturating_sub(stamp.modified.0);
        Self { stamp, quiet: u64::try_from(age).is_ok_and(|age| age > QUIET.as_secs()) }
    }
}

/// The outcome of an import.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// Its images are in the runtime under these names.
    Imported(BTreeMap<String, Target>),
    /// The file is unusable until it changes.
    Broken(String),
    /// The runtime failed; the import is retried at this time.
    Failed(String, Instant),
}

/// A problem with an archive or with the preload directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PreloadProblem {
    /// The file or directory.
    pub path: PathBuf,
    /// The problem, as a predicate that follows the path.
    pub message: String,
    /// Start of the problem.
    pub since: Timestamp,
}

/// State of one archive.
#[derive(Debug)]
struct KnownArchive {
    stamp: Stamp,
    /// When this stamp was first seen.
    since: Instant,
    /// `None` before the first attempt.
    outcome: Option<Outcome>,
    /// The names of its images, once it was imported; also while that is repeated.
    names: BTreeSet<String>,
    /// The problem reported last, and its start.
    reported: Option<(String, Timestamp)>,
}

/// State of all archives.
#[derive(Debug, Default)]
pub(super) struct Archives(BTreeMap<PathBuf, KnownArchive>);

/// The result of a scan.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Due {
    /// The archives to import, ordered by name.
    pub(super) now: Vec<PathBuf>,
    /// When the next archive becomes due without a change.
    pub(super) next: Option<Instant>,
}

impl Archives {
    /// Applies a listing and returns what is due.
    pub(super) fn take(&mut self, listed: &BTreeMap<PathBuf, ListedArchive>, now: Instant) -> Due {
        self.0.retain(|path, _| listed.contains_key(path));
        let mut due = Due { now: Vec::new(), next: None };
        for (path, seen) in listed {
            let fresh = |reported| KnownArchive {
                stamp: seen.stamp,
                since: now,
                outcome: None,
                names: BTreeSet::new(),
                reported,
            };
            let known = self.0.entry(path.clone()).or_insert_with(|| fresh(None));
            if known.stamp != seen.stamp {
                *known = fresh(known.reported.take());
            }
            let at = match &known.outcome {
                None if seen.quiet => now,
                None => known.since + QUIET,
                Some(Outcome::Failed(_, again)) => *again,
                Some(Outcome::Imported(_) | Outcome::Broken(_)) => continue,
            };
            if at <= now {
                due.now.push(path.clone());
            } else {
                due.next = Some(due.next.map_or(at, |next| next.min(at)));
            }
        }
        due
    }

    /// Records the outcome of an import. Returns what to log: every success, and a problem only once.
    pub(super) fn record(&mut self, path: &Path, outcome: Outcome, now: Timestamp) -> Option<Report> {
        if let Outcome::Imported(records) = &outcome {
            // The last import owns a name; otherwise two archives would take it from each other forever.
            for known in self.0.values_mut() {
                if let Some(Outcome::Imported(others)) = &mut known.outcome {
                    others.retain(|name, _| !records.contains_key(name));
                }
            }
        }
        let known = self.0.get_mut(path)?;
        let report = match &outcome {
            Outcome::Imported(_) => Some(Report::Imported),
            Outcome::Broken(problem) | Outcome::Failed(problem, _) => {
                let is_new = known.reported.as_ref().is_none_or(|(reported, _)| reported != problem);
                if is_new {
                    known.reported = Some((problem.clone(), now));
                }
                is_new.then(|| Report::Problem(problem.clone()))
            }
        };
        if report == Some(Report::Imported) {
            known.reported = None;
        }
        if let Outcome::Imported(records) = &outcome {
            known.names.extend(records.keys().cloned());
        }
        known.outcome = Some(outcome);
        report
    }

    /// The current problems.
    pub(super) fn problems(&self) -> impl Iterator<Item = PreloadProblem> {
        self.0.iter().filter_map(|(path, known)| {
            let (message, since) = known.reported.clone()?;
            Some(PreloadProblem { path: path.clone(), message, since })
        })
    }

    /// The imported archives, whose images should be in the runtime.
    pub(super) fn imported(&self) -> impl Iterator<Item = (&PathBuf, &BTreeMap<String, Target>)> {
        self.0.iter().filter_map(|(path, known)| match &known.outcome {
            Some(Outcome::Imported(records)) => Some((path, records)),
            Some(Outcome::Broken(_) | Outcome::Failed(..)) | None => None,
        })
    }

    /// The names and IDs of the images that the archives of the directory bring.
    pub(super) fn names(&self) -> BTreeSet<String> {
        self.0.values().flat_map(|known| &known.names).cloned().collect()
    }

    /// Makes an archive due again.
    pub(super) fn again(&mut self, path: &Path) {
        if let Some(known) = self.0.get_mut(path) {
            known.outcome = None;
        }
    }
}

/// What to log about an archive.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Report {
    /// Its images were imported.
    Imported,
    /// A new problem.
    Problem(String),
}

#[cfg(test)]
#[path = "directory_tests.rs"]
mod tests;
