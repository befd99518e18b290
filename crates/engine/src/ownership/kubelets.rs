//! Finds other kubelets that work on the same pods: on the same runtime, or from the same root directory. Blocks its thread.

use std::fmt;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use hostlet_host::{SysError, kubelets};

use super::endpoint::runtime_socket;

/// The socket below its root directory on which a kubelet of any name listens while it runs, for monitors of devices
/// (<https://kubernetes.io/docs/concepts/extend-kubernetes/compute-storage-net/device-plugins/>). That for device plugins proves
/// nothing: its path is the same for every root directory.
const SOCKET: &str = "pod-resources/kubelet.sock";

/// A running kubelet. It may be part of a larger program (k3s) or run in a container, where only its sockets show.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum OtherKubelet {
    /// A process on the same runtime.
    Process(i32),
    /// Something that answers on a kubelet's socket below the same root directory.
    Listener(PathBuf),
}

impl fmt::Display for OtherKubelet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Process(pid) => write!(f, "process {pid}"),
            Self::Listener(socket) => write!(f, "one that listens on {}", socket.display()),
        }
    }
}

/// The kubelet processes that use the runtime at `socket`, by process.
pub fn other_kubelets(proc: &Path, socket: &Path) -> Result<Vec<OtherKubelet>, SysError> {
    let found = kubelets(proc)?.into_iter().filter(|kubelet| is_same(&runtime_socket(kubelet), socket));
    let mut found: Vec<OtherKubelet> = found.map(|kubelet| OtherKubelet::Process(kubelet.pid)).collect();
    found.sort();
    Ok(found)
}

/// The kubelet that works from the root directory, if one listens there. For a first start only: afterwards the socket is hostlet's
/// own.
pub fn kubelet_listener(root_dir: &Path) -> Option<OtherKubelet> {
    let socket = root_dir.join(SOCKET);
    // A socket that nobody listens on is what a kubelet leaves behind.
    UnixStream::connect(&socket).is_ok().then_some(OtherKubelet::Listener(socket))
}

/// Whether both paths lead to the same socket, also through links (`/var/run`).
fn is_same(a: &Path, b: &Path) -> bool {
    let identity = |path: &Path| fs::metadata(path).map(|found| (found.dev(), found.ino()));
    match (identity(a), identity(b)) {
        (Ok(a), Ok(b)) => a == b,
        // The runtime is not running: compare the paths.
        (Err(_), Err(_)) => a == b,
        (Ok(_), Err(_)) | (Err(_), Ok(_)) => false,
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use super::*;

    #[test]
    fn a_kubelet_shows_by_its_sockets_only_while_it_listens() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(kubelet_listener(dir.path()), None);
        let socket = dir.path().join(SOCKET);
        fs::create_dir(dir.path().join("pod-resources")).unwrap();
        let listener = UnixListener::bind(&socket).unwrap();
        let found = kubelet_listener(dir.path()).unwrap();
        assert_eq!(found, OtherKubelet::Listener(socket.clone()));
        assert!(found.to_string().ends_with("pod-resources/kubelet.sock"));
        drop(listener);
        assert!(socket.exists() && kubelet_listener(dir.path()).is_none());
    }
}
