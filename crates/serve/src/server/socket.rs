//! The control socket: a Unix socket restricted to root. Serves nothing itself.

use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use nix::sys::stat::{Mode, fchmod};
use tokio::net::{UnixListener, UnixSocket, UnixStream};

use super::control::ControlServer;

/// Listen backlog: a handful of users and scripts.
const BACKLOG: u32 = 64;

/// Why the socket could not be served.
#[derive(Debug, thiserror::Error)]
pub enum ControlError {
    /// Its directory could not be created.
    #[error("cannot create the directory {}", path.display())]
    MakeDir {
        /// The directory.
        path: PathBuf,
        /// The operating system's error.
        source: io::Error,
    },
    /// Another daemon listens on it.
    #[error("another hostlet listens on {}: stop it, or give this one another socket (HostletConfiguration.socket)", path.display())]
    InUse {
        /// The socket.
        path: PathBuf,
    },
    /// Something other than a socket has its path.
    #[error("{} is not a socket: remove it, or give hostlet another socket (HostletConfiguration.socket)", path.display())]
    NotASocket {
        /// The path.
        path: PathBuf,
    },
    /// It could not be opened.
    #[error("cannot listen on {}", path.display())]
    Listen {
        /// The socket.
        path: PathBuf,
        /// The operating system's error.
        source: io::Error,
    },
}

impl ControlServer {
    /// Opens the socket with access for root only. A stale socket is replaced.
    pub async fn bind(path: &Path) -> Result<UnixListener, ControlError> {
        let owned = || path.to_owned();
        if let Some(dir) = path.parent() {
            std::fs::create_dir_all(dir)
                .map_err(|source| ControlError::MakeDir { path: dir.to_owned(), source })?;
        }
        let listen = |source| ControlError::Listen { path: owned(), source };
        match std::fs::symlink_metadata(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(listen(error)),
            Ok(found) if !found.file_type().is_socket() => {
                return Err(ControlError::NotASocket { path: owned() });
            }
            Ok(_) => {
                if UnixStream::connect(path).await.is_ok() {
                    return Err(ControlError::InUse { path: owned() });
                }
                std::fs::remove_file(path).map_err(listen)?;
            }
        }
        // The mode is set before the socket has its name, so that no other user can ever open it.
        let socket = UnixSocket::new_stream().map_err(listen)?;
        fchmod(&socket, Mode::S_IRUSR | Mode::S_IWUSR).map_err(|errno| listen(errno.into()))?;
        socket.bind(path).map_err(listen)?;
        socket.listen(BACKLOG).map_err(listen)
    }

    /// Identifies the socket at this path; `None` if there is none.
    pub fn identity(path: &Path) -> Option<(u64, u64)> {
        std::fs::symlink_metadata(path).ok().map(|found| (found.dev(), found.ino()))
    }
}
