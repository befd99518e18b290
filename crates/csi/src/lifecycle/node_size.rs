//! What the worker knows of its volume's size, and when it looks again whether the volume is to grow. Reads nothing.

use hostlet_base::Backoff;
use tokio::time::Instant;

use super::plan::Due;
use crate::{LOOK_PERIOD, NodeSize};

/// What the worker knows of the volume's size, and when it looks again.
pub(super) struct Expanding {
    pub(super) due: Due,
    pub(super) backoff: Option<Backoff<Instant>>,
    pub(super) size: NodeSize,
    /// Why the volume does not grow; also shown while all pods have it.
    pub(super) error: Option<String>,
}

impl Expanding {
    /// Of a volume that may be in use, since an earlier daemon.
    pub(super) fn new() -> Self {
        Self { due: soon(rand::random()), backoff: None, size: NodeSize::default(), error: None }
    }
}

/// The next look. `random` is in 0..1: all volumes of a node begin to be looked at together.
pub(super) fn soon(random: f64) -> Due {
    Due::At(Instant::now() + LOOK_PERIOD.mul_f64(0.5 + random))
}
