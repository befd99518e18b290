//! Whether a connection is still of use: it has a request in progress that was let in, or had one lately, and its client reads what it
//! asked for. Serves nothing.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::Error;
use axum::body::{Body, Bytes, HttpBody};
use axum::response::Response;
use http_body::{Frame, SizeHint};
use parking_lot::Mutex;
use tokio::time::{Instant, sleep, sleep_until};

/// How long a connection may be without a request (upstream's `IdleTimeout`).
pub(super) const IDLE: Duration = Duration::from_secs(90);

/// How long a client may read nothing of what it asked for. Upstream's `WriteTimeout` ends every answer after this long, even if it is
/// read; somebody who pauses a followed log has as much time here.
pub(super) const UNREAD: Duration = Duration::from_secs(4 * 3600);

/// In the extensions of a response: the request was refused for its credentials. It does not count as a use of the connection, otherwise
/// whoever has none could hold one for ever by asking, or by not reading the refusal.
#[derive(Clone, Copy, Debug)]
pub(super) struct Refused;

/// The requests of a connection. Clones share them.
#[derive(Clone)]
pub(super) struct ConnectionUse(Arc<Mutex<Requests>>);

struct Requests {
    /// How many are being answered.
    answering: usize,
    /// How many wait for the client to read.
    unread: usize,
    /// When an answer last made progress.
    last: Instant,
}

impl Requests {
    fn count(&mut self, phase: Phase) -> &mut usize {
        match phase {
            Phase::Answering => &mut self.answering,
            Phase::Unread => &mut self.unread,
        }
    }

    /// When the connection is of no use any more, if nothing happens until then.
    fn end(&self) -> Option<Instant> {
        match (self.answering, self.unread) {
            (0, 0) => Some(self.last + IDLE),
            (0, _) => Some(self.last + UNREAD),
            (_, _) => None,
        }
    }
}

impl ConnectionUse {
    /// A new connection, without requests.
    pub(super) fn new() -> Self {
        Self(Arc::new(Mutex::new(Requests { answering: 0, unread: 0, last: Instant::now() })))
    }

    /// Counts a request, until the result is dropped.
    pub(super) fn begin(&self) -> Request {
        self.0.lock().answering += 1;
        Request { connection: self.clone(), phase: Phase::Answering, is_let_in: false }
    }

    /// Waits until it is of no use any more, at most [`IDLE`] longer.
    pub(super) async fn ended(&self) {
        loop {
            let end = self.0.lock().end();
            match end {
                Some(end) if end <= Instant::now() => return,
                Some(end) => sleep_until(end).await,
                None => sleep(IDLE).await,
            }
        }
    }
}

/// Who has to act for a request to go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// The server: it makes the answer or its next part.
    Answering,
    /// The client: it has to read.
    Unread,
}

/// A request in progress.
pub(super) struct Request {
    connection: ConnectionUse,
    phase: Phase,
    is_let_in: bool,
}

impl Request {
    /// The response, which counts until its body is sent or dropped.
    pub(super) fn answered(mut self, response: Response) -> Response {
        if response.extensions().get::<Refused>().is_some() {
            return response;
        }
        self.is_let_in = true;
        self.enter(Phase::Unread);
        response.map(|body| Body::new(Answer { body, request: self }))
    }

    fn enter(&mut self, phase: Phase) {
        let mut requests = self.connection.0.lock();
        *requests.count(self.phase) -= 1;
        *requests.count(phase) += 1;
        requests.last = Instant::now();
        self.phase = phase;
    }
}

impl Drop for Request {
    fn drop(&mut self) {
        let mut requests = self.connection.0.lock();
        *requests.count(self.phase) -= 1;
        if self.is_let_in {
            requests.last = Instant::now();
        }
    }
}

/// A response body. It is asked for its next part once the previous one is on its way.
struct Answer {
    body: Body,
    request: Request,
}

impl HttpBody for Answer {
    type Data = Bytes;
    type Error = Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Error>>> {
        let frame = Pin::new(&mut self.body).poll_frame(context);
        self.request.enter(if frame.is_ready() { Phase::Unread } else { Phase::Answering });
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
