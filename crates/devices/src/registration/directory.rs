//! The directory of device plugins' sockets: opens the kubelet's own one. Removes sockets there at the start, and nothing else: a plugin
//! whose socket disappears registers again.

use std::fs;
use std::io;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

use tokio::net::UnixListener;

/// Upstream's name of the socket.
const SOCKET: &str = "kubelet.sock";

/// Why the socket cannot be opened.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ListenError {
    /// The directory cannot be read.
    #[error("cannot list the directory {}", path.display())]
    List { path: PathBuf, source: io::Error },
    /// A socket of an earlier start cannot be removed.
    #[error("cannot remove the socket {}", path.display())]
    Remove { path: PathBuf, source: io::Error },
    /// The socket cannot be opened.
    #[error("cannot listen on {}", path.display())]
    Listen { path: PathBuf, source: io::Error },
}

/// Removes the sockets in `dir` and opens the kubelet's.
pub(crate) fn listen(dir: &Path) -> Result<UnixListener, ListenError> {
    let list = |source| ListenError::List { path: dir.to_owned(), source };
    for entry in fs::read_dir(dir).map_err(list)? {
        let entry = entry.map_err(list)?;
        let is_socket = entry.file_type().is_ok_and(|kind| kind.is_socket());
        if is_socket {
            let path = entry.path();
            match fs::remove_file(&path) {
                // Its plugin just ended.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                removed => removed.map_err(|source| ListenError::Remove { path, source })?,
            }
        }
    }
    let path = dir.join(SOCKET);
    UnixListener::bind(&path).map_err(|source| ListenError::Listen { path, source })
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener as StdListener;

    use super::*;

    #[tokio::test]
    async fn only_sockets_are_removed() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        fs::write(at("kubelet_internal_checkpoint"), "{}").unwrap();
        fs::create_dir(at("sub")).unwrap();
        let _inside = StdListener::bind(at("sub/plugin.sock")).unwrap();
        std::os::unix::fs::symlink(at("sub/plugin.sock"), at("link")).unwrap();
        let _plugin = StdListener::bind(at("gpu.sock")).unwrap();
        // Of a daemon that was killed.
        drop(StdListener::bind(at("kubelet.sock")).unwrap());
        let _own = listen(dir.path()).unwrap();
        let mut names: Vec<String> = fs::read_dir(dir.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        assert_eq!(names, ["kubelet.sock", "kubelet_internal_checkpoint", "link", "sub"]);
        assert!(at("sub/plugin.sock").exists());
    }
}
