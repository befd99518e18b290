//! Sets up an HTTP/2 connection: keep-alive pings, the stream limit of the server, and the count of lost connections.

use std::future::{Future, poll_fn};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use hyper::client::conn::http2::Builder;
use hyper::rt::{Executor, Read, Write};
use hyper_util::rt::{TokioExecutor, TokioTimer};
use parking_lot::Mutex;
use tokio::time::Instant;

use super::connection::Connection;
use super::lane::Lane;

/// Ping interval and timeout of a connection with open streams: ten seconds in total, a quarter of a node's lease. Idle
/// connections are not pinged.
const PING: Duration = Duration::from_secs(5);
const PING_TIMEOUT: Duration = Duration::from_secs(5);

/// Sentinel for the stream limit before the server's SETTINGS frame. No server permits exactly this many.
const UNKNOWN: usize = 1;

/// Maximum wait for the server's SETTINGS, its first frame.
const SETTINGS_TIMEOUT: Duration = Duration::from_secs(2);

/// Performs the HTTP/2 handshake on `io` and adds the connection to `lane`.
pub(super) async fn add_http2<T>(io: T, lane: &Arc<Lane>) -> hyper::Result<()>
where
    T: Read + Write + Unpin + Send + 'static,
{
    let (sender, connection) = Builder::new(TokioExecutor::new())
        .timer(TokioTimer::new())
        .keep_alive_interval(PING)
        .keep_alive_timeout(PING_TIMEOUT)
        .keep_alive_while_idle(false)
        .initial_max_send_streams(UNKNOWN)
        .handshake(io)
        .await?;
    // A server that has not sent SETTINGS by then gets one request at a time.
    let until = Instant::now() + SETTINGS_TIMEOUT;
    while connection.current_max_send_streams() == UNKNOWN && Instant::now() < until {
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    // Polled below and queried here; both are short, and neither calls the other. None once it has ended: as long as it exists, its
    // senders take requests that nobody sends.
    let connection = Arc::new(Mutex::new(Some(Box::pin(connection))));
    let queried = connection.clone();
    let permitted =
        move || queried.lock().as_ref().map_or(0, |connection| connection.current_max_send_streams());
    lane.add(Connection::new(sender, permitted));
    // Without the lane, whose sender would keep the connection open after its client is dropped.
    let counts = lane.counts();
    counts.opened();
    // Finishes once its senders are dropped and its last stream is closed.
    TokioExecutor::new().execute(async move {
        let ended = poll_fn(|context| match connection.lock().as_mut() {
            Some(connection) => connection.as_mut().poll(context),
            None => Poll::Ready(Ok(())),
        });
        let ended = ended.await;
        let connection = connection.lock().take();
        drop(connection);
        if let Err(error) = &ended {
            let error = hostlet_base::error_chain(error);
            tracing::debug!(error, "a connection to the API server was lost");
        }
        counts.closed(ended.is_err());
    });
    Ok(())
}
