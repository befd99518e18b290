//! An HTTP/2 connection and its streams. Knows no lane.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use hyper::client::conn::http2::SendRequest;
use kube::client::Body;

/// Maximum streams per connection, even if the server permits more: they share its flow control.
const MAX_STREAMS: usize = 250;

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

    /// Opens a stream.
    pub(super) fn open(&self) -> ConnectionStream {
        self.usage.streams.fetch_add(1, Ordering::Relaxed);
        ConnectionStream { sender: self.sender.clone(), usage: self.usage.clone() }
    }
}

/// A stream of a connection, which counts until it is closed.
pub(super) struct ConnectionStream {
    pub(super) sender: SendRequest<Body>,
    usage: Arc<Usage>,
}

impl ConnectionStream {
    /// Closes the connection for further requests.
    pub(super) fn retire(&self) {
        self.usage.is_retired.store(true, Ordering::Relaxed);
    }

    /// Frees its place on the connection.
    pub(super) fn close(&self) {
        self.usage.streams.fetch_sub(1, Ordering::Relaxed);
    }
}
