//! The reading of manifests without its task, for simulations: from the disk, but when it is told to.

use std::path::{Path, PathBuf};

use jiff::Timestamp;

use super::files::Files;
use super::reader::Reader;
use super::{SourceState, StaticPod};

/// A reader of one directory.
pub(crate) struct DirectoryReader {
    path: PathBuf,
    files: Files,
    reader: Reader,
}

impl DirectoryReader {
    /// One that has read nothing yet, after one that read this.
    pub(crate) fn new(path: &Path, inherited: &[StaticPod]) -> Self {
        Self { path: path.to_owned(), files: Files::default(), reader: Reader::new("node", inherited) }
    }

    /// What the manifests say, read at `now`.
    pub(crate) fn read(&mut self, now: Timestamp) -> SourceState {
        self.reader.apply(self.files.read(&self.path, now), now);
        self.reader.state()
    }
}
