//! Making a connection, as far as HTTP/2 goes: its life signs, its end, and how many streams the server permits on it.

use std::future::{Future, poll_fn};
use std::sync::Arc;
use std::time::Duration;

use hyper::client::conn::http2::Builder;
use hyper::rt::{Executor, Read, Write};
use hyper_util::rt::{TokioExecutor, TokioTimer};
use parking_lot::Mutex;
use tokio::time::Instant;

use super::connection::Connection;
use super::lane::Lane;

/// A connection that is waited on and silent for so long is asked for a sign of life, and is dead when none comes for so
/// long: ten seconds in all, a quarter of a node's lease. Nobody asks while nothing is waited for.
const PING: Duration = Duration::from_secs(5);
const PING_ANSWER: Duration = Duration::from_secs(5);

/// What counts as permitted until the server has said how many streams it permits. No server permits just this many.
const UNTOLD: usize = 1;

/// How long a server may take to say it. It does so with its first words.
const SETTINGS: Duration = Duration::from_secs(2);

/// Speaks HTTP/2 on `io`, and adds the connection to `lane`.
pub(super) async fn add_http2<T>(io: T, lane: &Arc<Lane>) -> hyper::Result<()>
where
    T: Read + Write + Unpin + Send + 'static,
{
    let (sender, connection) = Builder::new(TokioExecutor::new())
        .timer(TokioTimer::new())
        .keep_alive_interval(PING)
        .keep_alive_timeout(PING_ANSWER)
        .keep_alive_while_idle(false)
        .initial_max_send_streams(UNTOLD)
        .handshake(io)
        .await?;
    // A server that says nothing for so long is asked one thing at a time.
    let until = Instant::now() + SETTINGS;
    while connection.current_max_send_streams() == UNTOLD && Instant::now() < until {
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    // Driven below and asked above; both are short, and neither calls the other.
    let connection = Arc::new(Mutex::new(Box::pin(connection)));
    let asked = connection.clone();
    lane.add(Connection::new(sender, move || asked.lock().current_max_send_streams()));
    // Not the lane: it has the sender, and would keep the connection open after its client is gone.
    let counts = lane.counts();
    counts.opened();
    // Ends by itself, once nobody has its sender any more and its last stream has ended.
    TokioExecutor::new().execute(async move {
        let ended = poll_fn(|context| connection.lock().as_mut().poll(context)).await;
        if let Err(error) = &ended {
            let error = crate::types::error_chain(error);
            tracing::debug!(error, "a connection to the API server was lost");
        }
        counts.closed(ended.is_err());
    });
    Ok(())
}
