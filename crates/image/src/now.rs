//! The current time on both clocks.

use jiff::Timestamp;
use tokio::time::Instant;

/// The current time on both clocks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Now {
    pub(crate) tokio: Instant,
    pub(crate) wall: Timestamp,
}
