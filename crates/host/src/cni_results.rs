//! libcni's cached results of networks, and the removal of truncated ones. Never removes a valid result.
//!
//! libcni, in the runtime, writes the result of each network into a file, in place. If the runtime is killed during the write, a
//! truncated or empty file remains, and the network cannot be torn down, because the result is read first. Without the file,
//! it can be torn down. libcni 1.3.1, in containerd 2.4, tolerates an invalid result.

use std::fs;
use std::path::{Path, PathBuf};

use serde::de::IgnoredAny;

use super::SysError;

/// libcni's default directory of results, which containerd uses.
pub const CNI_RESULTS: &str = "/var/lib/cni/results";

/// Whether this is a runtime's error about an invalid cached result.
pub fn is_broken_result_error(message: &str) -> bool {
    message.contains("cached result")
        && ["unexpected end of JSON input", "invalid character"].iter().any(|what| message.contains(what))
}

/// Removes results of a sandbox in `dir` that are not valid JSON, and returns them. Blocking.
pub fn remove_broken_results(dir: &Path, sandbox: &str) -> Result<Vec<PathBuf>, SysError> {
    // File names consist of network, sandbox and interface.
    let of_sandbox = format!("-{sandbox}-");
    let mut removed = Vec::new();
    let unread = |source| SysError::Read { path: dir.to_owned(), source };
    for entry in fs::read_dir(dir).map_err(unread)? {
        let entry = entry.map_err(unread)?;
        let path = entry.path();
        let is_its = entry.file_name().to_string_lossy().contains(&of_sandbox);
        if !is_its || !entry.file_type().is_ok_and(|kind| kind.is_file()) {
            continue;
        }
        let text = fs::read(&path).map_err(|source| SysError::Read { path: path.clone(), source })?;
        if serde_json::from_slice::<IgnoredAny>(&text).is_err() {
            fs::remove_file(&path).map_err(|source| SysError::Remove { path: path.clone(), source })?;
            removed.push(path);
        }
    }
    Ok(removed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_invalid_results_of_the_sandbox_are_removed() {
        let dir = tempfile::tempdir().unwrap();
        let files = [
            ("net-abc-eth0", ""),
            ("net-abc-eth1", r#"{"kind": "cniCa"#),
            ("cni-loopback-abc-lo", r#"{"kind": "cniCacheV1"}"#),
            ("net-abcd-eth0", ""),
            ("net-xabc-eth0", ""),
        ];
        for (name, text) in files {
            fs::write(dir.path().join(name), text).unwrap();
        }
        let mut removed = remove_broken_results(dir.path(), "abc").unwrap();
        removed.sort();
        assert_eq!(removed, ["net-abc-eth0", "net-abc-eth1"].map(|name| dir.path().join(name)));
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 3);
    }

    #[test]
    fn the_librarys_errors_are_recognized() {
        let text = "failed to destroy network for sandbox \"abc\": plugin type=\"bridge\" failed (delete): failed to get \
                    network \"net\" cached result: decoding version from network config: unexpected end of JSON input";
        assert!(is_broken_result_error(text));
        assert!(!is_broken_result_error("invalid character in a manifest"));
    }
}
