//! Writes small files completely or not at all. Blocking.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;

/// Replaces the file with one that anybody may read, after its content is on the disk. Creates its directory if missing.
pub(super) fn replace(path: &Path, content: &[u8]) -> io::Result<()> {
    let Some(directory) = path.parent() else { return Err(io::ErrorKind::InvalidInput.into()) };
    fs::DirBuilder::new().recursive(true).mode(0o755).create(directory)?;
    // logind reads only names that end with `.conf`.
    let new = path.with_added_extension("new");
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o644).open(&new)?;
    file.write_all(content)?;
    file.sync_all()?;
    fs::rename(&new, path)
}
