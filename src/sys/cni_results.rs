//! What the network plugins' library keeps of each network it gave, and what becomes of it when that was cut short. Removes
//! nothing that says anything.
//!
//! The library (libcni, in the runtime) writes the result of each network into a file, in place. A runtime that is killed meanwhile leaves
//! half of one, or an empty one, and from then on cannot take that network down: it reads the result first. Without the file
//! it does. libcni 1.3.1, in containerd 2.4, does without a result that it cannot read.

use std::fs;
use std::path::{Path, PathBuf};

use serde::de::IgnoredAny;

use super::SysError;

/// Where libcni keeps the results, in every runtime that does not choose another place; containerd does not.
pub const CNI_RESULTS: &str = "/var/lib/cni/results";

/// Whether a runtime's message says that it cannot read the result of a network.
pub fn is_of_broken_result(message: &str) -> bool {
    message.contains("cached result")
        && ["unexpected end of JSON input", "invalid character"].iter().any(|what| message.contains(what))
}

/// Removes those results in `dir` that are of a sandbox and no JSON; answers which. Blocking.
pub fn remove_broken_results(dir: &Path, sandbox: &str) -> Result<Vec<PathBuf>, SysError> {
    // Their names are network, sandbox and interface.
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
    fn only_what_says_nothing_goes_and_only_of_that_sandbox() {
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
    fn the_librarys_words_are_known() {
        let text = "failed to destroy network for sandbox \"abc\": plugin type=\"bridge\" failed (delete): failed to get \
                    network \"net\" cached result: decoding version from network config: unexpected end of JSON input";
        assert!(is_of_broken_result(text));
        assert!(!is_of_broken_result("invalid character in a manifest"));
    }
}
