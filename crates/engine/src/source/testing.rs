//! Reading manifests on demand, without the task, for simulations.

use std::path::{Path, PathBuf};

use jiff::Timestamp;

use super::files::Files;
use super::reader::Reader;
use super::{SourceState, StaticPod};

pub(crate) struct DirectoryReader {
    path: PathBuf,
    files: Files,
    reader: Reader,
}

impl DirectoryReader {
    /// A reader before its first pass, with the pods of a previous daemon.
    pub(crate) fn new(path: &Path, adopted: &[StaticPod]) -> Self {
        Self { path: path.to_owned(), files: Files::default(), reader: Reader::new("node", true, adopted) }
    }

    /// The state of the manifests, read at `now`.
    pub(crate) fn read(&mut self, now: Timestamp) -> SourceState {
        self.reader.apply(self.files.read(&self.path, now), now);
        self.reader.state()
    }
}
