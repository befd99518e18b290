//! Replaces files atomically: a reader, or a daemon after a power cut, finds the old content or the new one. Knows no content.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// Writes the file at `path` with this mode, regardless of the umask, and makes it durable. Blocks its thread.
///
/// # Errors
/// An operation failed. The file is then unchanged.
pub fn replace_file(path: &Path, content: &[u8], mode: u32) -> io::Result<()> {
    let new = path.with_added_extension("new");
    match fs::remove_file(&new) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    let written = write_new(&new, content, mode).and_then(|()| fs::rename(&new, path));
    if let Err(error) = written {
        // Only the first error matters.
        let _ = fs::remove_file(&new);
        return Err(error);
    }
    sync_parent(path)
}

/// Makes the names in a file's directory durable. Blocks its thread.
pub fn sync_parent(path: &Path) -> io::Result<()> {
    match path.parent() {
        Some(directory) if !directory.as_os_str().is_empty() => File::open(directory)?.sync_all(),
        Some(_) | None => File::open(".")?.sync_all(),
    }
}

/// Creates the file with its mode from the start, so that nobody else can ever open a secret.
fn write_new(path: &Path, content: &[u8], mode: u32) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(mode).open(path)?;
    file.set_permissions(std::os::unix::fs::PermissionsExt::from_mode(mode))?;
    file.write_all(content)?;
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_file_is_replaced_as_a_whole_with_its_mode() {
        let dir = tempfile::TempDir::new().unwrap();
        let path = dir.path().join("kubelet.conf");
        // Remains of a daemon that was killed.
        fs::write(dir.path().join("kubelet.conf.new"), "half").unwrap();
        for content in ["first", "second, longer", "3"] {
            replace_file(&path, content.as_bytes(), 0o600).unwrap();
            assert_eq!(fs::read_to_string(&path).unwrap(), content);
            assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o7777, 0o600);
        }
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_failure_leaves_the_file_unchanged() {
        let dir = tempfile::TempDir::new().unwrap();
        let path = dir.path().join("a");
        fs::create_dir(&path).unwrap();
        assert!(replace_file(&path, b"b", 0o600).is_err());
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
        assert!(replace_file(&dir.path().join("none/a"), b"b", 0o600).is_err());
    }
}
