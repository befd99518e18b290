//! Whether the service of a registered plugin can be reached: a connection that is kept open, and opened again when it breaks. Calls
//! nothing.

use std::path::{Path, PathBuf};
use std::time::Duration;

use futures::future::BoxFuture;
use futures::stream::{self, Stream};
use futures::{FutureExt, TryFutureExt};
use hostlet_base::{Backoff, BackoffPolicy};
use hyper::client::conn::http2::handshake;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::UnixStream;
use tokio::time::{Instant, sleep};
use tonic::body::Body;

/// Pauses before a connection that broke or failed is opened again: those of gRPC for Go.
const BACKOFF: BackoffPolicy = BackoffPolicy {
    initial: Duration::from_secs(1),
    max: Duration::from_secs(120),
    reset_after: Duration::from_secs(240),
};

/// Whether the service on `socket` can be reached, each time that changes. Begins as reachable, and never ends. Dropping it closes the
/// connection.
pub(super) fn reachability(socket: &Path) -> impl Stream<Item = bool> + Send + 'static {
    let follower = Follower { socket: socket.to_owned(), link: Link::Due, is_reachable: true, backoff: None };
    stream::unfold(follower, |mut follower| async move {
        let is_reachable = follower.next().await;
        Some((is_reachable, follower))
    })
}

/// The connection.
enum Link {
    /// To be opened now.
    Due,
    /// Open, until this ends.
    Open(BoxFuture<'static, ()>),
    /// It broke, or was not accepted.
    Broken,
}

struct Follower {
    socket: PathBuf,
    link: Link,
    /// What was said last.
    is_reachable: bool,
    backoff: Option<Backoff<Instant>>,
}

impl Follower {
    async fn next(&mut self) -> bool {
        loop {
            match std::mem::replace(&mut self.link, Link::Broken) {
                Link::Due => {
                    if let Ok(connection) = open(&self.socket).await {
                        self.link = Link::Open(connection);
                    }
                }
                Link::Open(connection) => connection.await,
                Link::Broken => {
                    let now = Instant::now();
                    let next = Backoff::next(self.backoff, &BACKOFF, now, now);
                    self.backoff = Some(next);
                    sleep(next.delay).await;
                    self.link = Link::Due;
                    continue;
                }
            }
            let is_reachable = match &self.link {
                Link::Open(_) => true,
                Link::Due | Link::Broken => false,
            };
            if std::mem::replace(&mut self.is_reachable, is_reachable) != is_reachable {
                return is_reachable;
            }
        }
    }
}

/// Opens a connection, which ends when the service does.
async fn open(socket: &Path) -> Result<BoxFuture<'static, ()>, ConnectError> {
    let io = TokioIo::new(UnixStream::connect(socket).await?);
    let (sender, connection) = handshake::<_, _, Body>(TokioExecutor::new(), io).await?;
    let ended = connection.unwrap_or_else(|_| ()).map(move |()| drop(sender));
    Ok(ended.boxed())
}

/// Nothing accepts the connection.
#[derive(Debug, thiserror::Error)]
enum ConnectError {
    #[error(transparent)]
    Socket(#[from] std::io::Error),
    #[error(transparent)]
    Http(#[from] hyper::Error),
}

#[cfg(test)]
mod tests {
    use std::fs;

    use futures::StreamExt;
    use futures::future::join;
    use tokio::net::UnixListener;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_service_that_dies_and_comes_back_is_noticed_though_its_socket_stays() {
        let dir = tempfile::tempdir().unwrap();
        let socket = dir.path().join("dra.sock");
        let mut reachable = Box::pin(reachability(&socket));
        let listener = UnixListener::bind(&socket).unwrap();
        let dies = async {
            let connection = listener.accept().await.unwrap();
            drop((listener, connection));
        };
        assert_eq!(join(reachable.next(), dies).await.0, Some(false));
        assert!(socket.exists());
        for _ in 0..2 {
            fs::remove_file(&socket).unwrap();
            let listener = UnixListener::bind(&socket).unwrap();
            let (is_reachable, connection) = join(reachable.next(), listener.accept()).await;
            assert_eq!(is_reachable, Some(true));
            drop((listener, connection));
            assert_eq!(reachable.next().await, Some(false));
        }
    }
}
