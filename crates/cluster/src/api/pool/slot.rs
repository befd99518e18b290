//! The place of a request on a connection of a lane, and the response that holds it.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Frame, SizeHint};
use hyper::body::Incoming;
use hyper::client::conn::http2::SendRequest;
use kube::client::Body;
use tokio::time::Instant;

use super::connection::ConnectionStream;
use super::lane::Lane;

/// A request cancelled without a response after this time makes its connection suspect.
const SUSPECT: Duration = Duration::from_secs(4);

/// A stream slot, freed when dropped.
pub(super) struct StreamSlot {
    stream: ConnectionStream,
    lane: Arc<Lane>,
    taken_at: Instant,
    is_answered: bool,
}

impl StreamSlot {
    /// A slot on the first connection of the lane with capacity, if any.
    pub(super) fn take(lane: &Arc<Lane>) -> Option<Self> {
        let stream = lane.open()?;
        Some(Self { stream, lane: lane.clone(), taken_at: Instant::now(), is_answered: false })
    }

    /// Sends the request.
    pub(super) fn sender(&mut self) -> &mut SendRequest<Body> {
        &mut self.stream.sender
    }

    /// Records a response.
    pub(super) fn answered(&mut self) {
        self.is_answered = true;
    }

    /// Closes the connection for further requests.
    pub(super) fn retire(&self) {
        self.stream.retire();
    }
}

impl Drop for StreamSlot {
    fn drop(&mut self) {
        if !self.is_answered && self.taken_at.elapsed() >= SUSPECT {
            // A retry must use another connection, whatever is wrong with this one.
            self.retire();
        }
        self.stream.close();
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
