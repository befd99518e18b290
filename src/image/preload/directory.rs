//! The files of the directory: which are archives, which lie still, and which have to be looked at now. The listing blocks
//! its thread; the judgement is pure.

use std::collections::BTreeMap;
use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use jiff::Timestamp;
use tokio::time::Instant;

use super::import::Target;

/// A file that did not change for this long has been copied whole.
const QUIET: Duration = Duration::from_secs(2);
/// How names of archives end; the last ones are of archives that cannot be read, which has to be said.
const ENDINGS: [&str; 9] =
    [".tar", ".tar.gz", ".tgz", ".tar.zst", ".tzst", ".tar.xz", ".txz", ".tar.bz2", ".tar.lz4"];

/// What tells one version of a file from another without reading it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stamp {
    device: u64,
    inode: u64,
    size: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

/// What a listing found of one archive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ListedArchive {
    stamp: Stamp,
    /// Whether it was last written to long enough ago.
    quiet: bool,
}

/// Lists the archives in `directory`. A directory that is not there is an empty one.
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
        // Files that went meanwhile, links to nowhere, and what would block whoever opens it.
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

/// What became of an archive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// Its images are in the runtime, under these names.
    Imported(BTreeMap<String, Target>),
    /// It is of no use before it changes.
    Broken(String),
    /// The runtime did not take it; tried again at this time.
    Failed(String, Instant),
}

/// What is wrong with an archive, or with the directory of archives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PreloadProblem {
    /// The file or directory.
    pub path: PathBuf,
    /// What is wrong; goes on after its name.
    pub message: String,
    /// Since when.
    pub since: Timestamp,
}

/// What is known of one archive.
#[derive(Debug)]
struct KnownArchive {
    stamp: Stamp,
    /// Since when it has this stamp.
    since: Instant,
    /// None before it was tried.
    outcome: Option<Outcome>,
    /// The problem that was told last, and since when it is there.
    told: Option<(String, Timestamp)>,
}

/// What is known of all archives.
#[derive(Debug, Default)]
pub(super) struct Archives(BTreeMap<PathBuf, KnownArchive>);

/// What to do next.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Due {
    /// The archives to import, in the order of their names.
    pub(super) now: Vec<PathBuf>,
    /// When another will be due if nothing happens.
    pub(super) next: Option<Instant>,
}

impl Archives {
    /// Takes in a listing, and says what is due.
    pub(super) fn take(&mut self, listed: &BTreeMap<PathBuf, ListedArchive>, now: Instant) -> Due {
        self.0.retain(|path, _| listed.contains_key(path));
        let mut due = Due { now: Vec::new(), next: None };
        for (path, seen) in listed {
            let fresh = |told| KnownArchive { stamp: seen.stamp, since: now, outcome: None, told };
            let known = self.0.entry(path.clone()).or_insert_with(|| fresh(None));
            if known.stamp != seen.stamp {
                *known = fresh(known.told.take());
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

    /// Notes what became of an archive. Answers what is to be told: a problem, once; or that one is over.
    pub(super) fn note(&mut self, path: &Path, outcome: Outcome, now: Timestamp) -> Option<Tell> {
        if let Outcome::Imported(records) = &outcome {
            // A name is the last one's: two archives would take it from each other for ever.
            for known in self.0.values_mut() {
                if let Some(Outcome::Imported(others)) = &mut known.outcome {
                    others.retain(|name, _| !records.contains_key(name));
                }
            }
        }
        let known = self.0.get_mut(path)?;
        let tell = match &outcome {
            Outcome::Imported(_) => Some(Tell::Imported),
            Outcome::Broken(problem) | Outcome::Failed(problem, _) => {
                let news = known.told.as_ref().is_none_or(|(told, _)| told != problem);
                if news {
                    known.told = Some((problem.clone(), now));
                }
                news.then(|| Tell::Problem(problem.clone()))
            }
        };
        if tell == Some(Tell::Imported) {
            known.told = None;
        }
        known.outcome = Some(outcome);
        tell
    }

    /// What is wrong with archives now.
    pub(super) fn problems(&self) -> impl Iterator<Item = PreloadProblem> {
        self.0.iter().filter_map(|(path, known)| {
            let (message, since) = known.told.clone()?;
            Some(PreloadProblem { path: path.clone(), message, since })
        })
    }

    /// The archives whose images should be in the runtime.
    pub(super) fn imported(&self) -> impl Iterator<Item = (&PathBuf, &BTreeMap<String, Target>)> {
        self.0.iter().filter_map(|(path, known)| match &known.outcome {
            Some(Outcome::Imported(records)) => Some((path, records)),
            Some(Outcome::Broken(_) | Outcome::Failed(..)) | None => None,
        })
    }

    /// Lets an archive be due again.
    pub(super) fn again(&mut self, path: &Path) {
        if let Some(known) = self.0.get_mut(path) {
            known.outcome = None;
        }
    }
}

/// What is to be told of an archive.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Tell {
    /// Its images are there.
    Imported,
    /// A problem that was not told yet.
    Problem(String),
}

#[cfg(test)]
#[path = "directory_tests.rs"]
mod tests;
