//! Serves gRPC on a Unix socket for as long as the daemon runs; a socket that cannot be opened is tried again.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use hostlet_base::error_chain;
use hostlet_host::file_work;
use hostlet_plugins::incoming;
use tokio::net::UnixListener;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use tonic::transport::server::Router;

/// Pause before a socket is opened again.
const PAUSE: Duration = Duration::from_secs(10);

/// The mode of a socket's directory, upstream's.
const DIR_MODE: u32 = 0o750;

/// Why the socket is not served.
#[derive(Debug, thiserror::Error)]
enum SocketError {
    /// Its directory cannot be created.
    #[error("cannot create the directory {}", path.display())]
    MakeDir { path: PathBuf, source: io::Error },
    /// What an earlier daemon left cannot be removed.
    #[error("cannot remove the socket of an earlier daemon, {}", path.display())]
    Remove { path: PathBuf, source: io::Error },
    /// Something else is there.
    #[error("{} is not a socket: remove it", .0.display())]
    NotASocket(PathBuf),
    /// It cannot be opened.
    #[error("cannot listen on {}", path.display())]
    Listen { path: PathBuf, source: io::Error },
}

/// Serves what `router` makes on the socket until cancelled. `what` names it in the log.
pub(crate) async fn serve_socket(
    what: &str,
    socket: &Path,
    router: impl Fn() -> Router,
    cancel: CancellationToken,
) {
    let serving = async {
        loop {
            let path = socket.to_owned();
            let problem = match file_work(move || listen(&path)).await {
                Ok(Ok(listener)) => {
                    let served = router().serve_with_incoming(incoming(listener)).await;
                    served.err().map_or_else(|| "it was closed".to_owned(), |error| error_chain(&error))
                }
                Ok(Err(error)) => error_chain(&error),
                Err(panic) => panic.to_string(),
            };
            tracing::error!(error = problem, "the {what} cannot be served; retrying");
            sleep(PAUSE).await;
        }
    };
    tokio::select! {
        // Cancel-safe: waits for a token.
        () = cancel.cancelled() => {}
        // Cancel-safe: dropping the server closes its connections.
        () = serving => {}
    }
}

/// Opens the socket in place of that of an earlier daemon.
fn listen(path: &Path) -> Result<UnixListener, SocketError> {
    let owned = || path.to_owned();
    if let Some(dir) = path.parent() {
        let made = DirBuilder::new().recursive(true).mode(DIR_MODE).create(dir);
        made.map_err(|source| SocketError::MakeDir { path: dir.to_owned(), source })?;
    }
    match fs::symlink_metadata(path) {
        Ok(found) if !found.file_type().is_socket() => return Err(SocketError::NotASocket(owned())),
        Ok(_) => fs::remove_file(path).map_err(|source| SocketError::Remove { path: owned(), source })?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(source) => return Err(SocketError::Listen { path: owned(), source }),
    }
    UnixListener::bind(path).map_err(|source| SocketError::Listen { path: owned(), source })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn only_a_socket_is_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("pods-api/a.sock");
        drop(listen(&path).unwrap());
        listen(&path).unwrap();
        fs::remove_file(&path).unwrap();
        fs::write(&path, "").unwrap();
        let error = listen(&path).unwrap_err();
        assert!(matches!(error, SocketError::NotASocket(_)), "{error}");
        assert!(path.exists());
    }
}
