//! The reading of manifests without its task, for simulations: from the disk, but when it is told to.

use std::path::{Path, PathBuf};

use jiff::Timestamp;

use super::SourceState;
use super::files::Files;
use super::reader::Reader;

/// A reader of one directory.
pub(crate) struct DirectoryReader {
    path: PathBuf,
    files: Files,
    reader: Reader,
}

impl DirectoryReader {
    /// One that has read nothing yet.
    pub(crate) fn new(path: &Path) -> Self {
        Self { path: path.to_owned(), files: Files::default(), reader: Reader::new("node") }
    }

    /// What the manifests say, read at `now`.
    pub(crate) fn read(&mut self, now: Timestamp) -> SourceState {
        self.reader.apply(self.files.read(&self.path, now), now);
        self.reader.state()
    }
}
