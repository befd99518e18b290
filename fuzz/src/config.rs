//! Configuration files, read from disk as the daemon does: an accepted configuration can be shown and loaded again; an error
//! names the location.

use std::io::Write;

use hostlet_config::{KubeletFlags, Loaded, load};
use tempfile::NamedTempFile;

/// Checks that a configuration file gives a configuration or a helpful message.
pub fn config(data: &[u8]) {
    let Some(file) = written(data) else { return };
    match read(&file) {
        Ok(first) => {
            let text = first.effective.to_string();
            let Some(shown) = written(text.as_bytes()) else { return };
            match read(&shown) {
                Ok(second) => assert_eq!(second.effective, first.effective, "another configuration:\n{text}"),
                Err(message) => panic!("does not read back: {message}\n{text}"),
            }
        }
        Err(message) => {
            super::check_message(&message);
            let path = file.path().display().to_string();
            let placed = |line: &str| line.starts_with(&path) || line.starts_with("configuration: ");
            assert!(message.lines().all(placed), "names no place: {message}");
        }
    }
}

fn read(file: &NamedTempFile) -> Result<Loaded, String> {
    let mut flags = KubeletFlags::default();
    flags.process.config = Some(file.path().to_owned());
    load(&flags, "host").map_err(|errors| errors.to_string())
}

/// `None` if the disk is full, which is not checked here.
fn written(data: &[u8]) -> Option<NamedTempFile> {
    let mut file = NamedTempFile::new().ok()?;
    file.write_all(data).ok()?;
    Some(file)
}
