//! Writes a small file as a whole: after a crash or a power failure it has its old or its new content. Decides nothing.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use super::SysError;

/// Replaces the file at `path`, or creates it, with this content and mode. Blocking.
pub fn write_whole(path: &Path, content: &str, mode: u32) -> Result<(), SysError> {
    let failed = |source: io::Error| SysError::WriteWhole { path: path.to_owned(), source };
    let new = path.with_added_extension("new");
    let written = write_new(&new, content, mode).and_then(|()| fs::rename(&new, path));
    if written.is_err() {
        // What is left of it would only confuse.
        let _ = fs::remove_file(&new);
    }
    written.and_then(|()| path.parent().map_or(Ok(()), |dir| File::open(dir)?.sync_all())).map_err(failed)
}

fn write_new(path: &Path, content: &str, mode: u32) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        Ok(()) | Err(_) => {}
    }
    let mut file = OpenOptions::new().write(true).create_new(true).mode(mode).open(path)?;
    file.write_all(content.as_bytes())?;
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_file_is_replaced_as_a_whole_and_nothing_else_is_left() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        fs::write(dir.path().join("file.new"), "left by a crash").unwrap();
        for content in ["first", "second"] {
            write_whole(&path, content, 0o600).unwrap();
            assert_eq!(fs::read_to_string(&path).unwrap(), content);
        }
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
        let error = write_whole(&dir.path().join("none/file"), "", 0o600).unwrap_err();
        assert!(error.to_string().ends_with("none/file"), "{error}");
    }
}
