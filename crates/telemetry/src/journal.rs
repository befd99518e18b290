//! Detects whether stderr is connected to the journal.

use std::os::fd::AsFd;

use nix::sys::stat::fstat;

/// Set by systemd for services whose output goes to the journal: `<device>:<inode>` (systemd.exec(5)).
const JOURNAL_STREAM: &str = "JOURNAL_STREAM";

/// Whether stderr is connected to the journal. The variable alone is not enough, because programs with redirected output
/// inherit it.
pub(super) fn stderr_is_journal() -> bool {
    let Ok(stream) = std::env::var(JOURNAL_STREAM) else { return false };
    fstat(std::io::stderr().as_fd()).is_ok_and(|stat| names_file(&stream, stat.st_dev, stat.st_ino))
}

/// Whether a value of `JOURNAL_STREAM` matches this device and inode.
fn names_file(stream: &str, device: u64, inode: u64) -> bool {
    stream.split_once(':').is_some_and(|(d, i)| d.parse() == Ok(device) && i.parse() == Ok(inode))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn device_and_inode_must_match() {
        assert!(names_file("8:12345", 8, 12345));
        for stream in ["", "8", "8:", ":12345", "8:1234", "9:12345", "8:12345:1", "x:y"] {
            assert!(!names_file(stream, 8, 12345), "{stream}");
        }
    }
}
