//! How full the filesystem of a path is. Read-only.

use std::path::Path;

use nix::sys::statvfs::statvfs;

use super::SysError;

/// The space of a filesystem.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FilesystemUsage {
    /// Its size, bytes.
    pub capacity: u64,
    /// What users without privileges can still write, bytes.
    pub available: u64,
    /// What is used, bytes; not all of the rest, since some may be reserved.
    pub used: u64,
    /// Its inodes; 0 if it creates them as needed.
    pub inodes: u64,
    /// Inodes that new files can have.
    pub inodes_free: u64,
}

impl FilesystemUsage {
    /// Inodes in use: all but the free ones.
    pub fn inodes_used(&self) -> u64 {
        self.inodes.saturating_sub(self.inodes_free)
    }
}

/// Measures the filesystem that has `path`. Blocks as long as its server does not answer.
pub fn filesystem_usage(path: &Path) -> Result<FilesystemUsage, SysError> {
    let facts = statvfs(path)
        .map_err(|source| SysError::Filesystem { path: path.to_owned(), source: source.into() })?;
    // The types of these numbers depend on the architecture.
    let bytes = |blocks: u64| facts.fragment_size().saturating_mul(blocks);
    Ok(FilesystemUsage {
        capacity: bytes(facts.blocks()),
        available: bytes(facts.blocks_available()),
        used: bytes(facts.blocks().saturating_sub(facts.blocks_free())),
        inodes: facts.files(),
        inodes_free: facts.files_free(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parts_of_a_filesystem_fit_into_it() {
        let usage = filesystem_usage(Path::new("/")).unwrap();
        assert!(usage.capacity > 0 && usage.used <= usage.capacity && usage.available <= usage.capacity);
        assert!(usage.inodes_free <= usage.inodes && usage.inodes_used() <= usage.inodes);
        let error = filesystem_usage(Path::new("/nowhere")).unwrap_err();
        assert_eq!(error.to_string(), "cannot measure the filesystem of /nowhere");
    }
}
