//! An HTTP/2 connection and its stream slots.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Frame, SizeHint};
use hyper::body::Incoming;
use hyper::client::conn::http2::SendRequest;
use kube::client::Body;
use tokio::time::Instant;

use super::lane::Lane;

/// Maximum streams per connection, even if the server permits more: they share its flow control.
const MAX_STREAMS: usize = 250;

/// A request cancelled without a response after this time makes its connection suspect.
const SUSPECT: Duration = Duration::from_secs(4);

/// The number of streams that the server permits now; it may change at any time.
type Permitted = Box<dyn Fn() -> usize + Send>;

/// A connection of a lane.
pub(super) struct Connection {
    sender: SendRequest<Body>,
    permitted: Permitted,
    usage: Arc<Usage>,
}

#[derive(Debug, Default)]
struct Usage {
    streams: AtomicUsize,
    is_retired: AtomicBool,
}

impl Connection {
    pub(super) fn new(sender: SendRequest<Body>, permitted: impl Fn() -> usize + Send + 'static) -> Self {
        Self { sender, permitted: Box::new(permitted), usage: Arc::default() }
    }

    /// Whether another stream fits. A tenth of the server's limit is left free: the server counts a closed stream longer than we
    /// do, and a stream over the limit would queue behind watches that never end.
    pub(super) fn has_capacity(&self) -> bool {
        let permitted = (self.permitted)();
        let limit = (permitted - permitted / 10).min(MAX_STREAMS);
        self.is_usable() && self.streams() < limit
    }

    /// Whether it accepts further streams at all.
    pub(super) fn is_usable(&self) -> bool {
        !self.usage.is_retired.load(Ordering::Relaxed) && !self.sender.is_closed()
    }

    /// Its open streams.
    pub(super) fn streams(&self) -> usize {
        self.usage.streams.load(Ordering::Relaxed)
    }

    /// Takes a stream slot.
    pub(super) fn slot(&self, lane: &Arc<Lane>) -> StreamSlot {
        self.usage.streams.fetch_add(1, Ordering::Relaxed);
        lane.stream_began();
        StreamSlot {
            sender: self.sender.clone(),
            usage: self.usage.clone(),
            lane: lane.clone(),
            taken_at: Instant::now(),
            is_answered: false,
        }
    }
}

/// A stream slot, freed when dropped.
pub(super) struct StreamSlot {
    pub(super) sender: SendRequest<Body>,
    usage: Arc<Usage>,
    lane: Arc<Lane>,
    taken_at: Instant,
    is_answered: bool,
}

impl StreamSlot {
    /// Records a response.
    pub(super) fn answered(&mut self) {
        self.is_answered = true;
    }

    /// Closes the connection for further requests.
    pub(super) fn retire(&self) {
        self.usage.is_retired.store(true, Ordering::Relaxed);
    }
}

impl Drop for StreamSlot {
    fn drop(&mut self) {
        if !self.is_answered && self.taken_at.elapsed() >= SUSPECT {
            // A retry must use another connection, whatever is wrong with this one.
            self.retire();
        }
        self.usage.streams.fetch_sub(1, Ordering::Relaxed);
        self.lane.stream_ended();
    }
}

/// A response body, which holds its slot until it was read.
pub(crate) struct ResponseBody {
    body: Incoming,
    _slot: Option<StreamSlot>,
}

impl ResponseBody {
    pub(super) fn new(body: Incoming, slot: Option<StreamSlot>) -> Self {
        Self { body, _slot: slot }
    }
}

impl http_body::Body for ResponseBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
