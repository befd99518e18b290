//! How often a certificate is requested again after a failure, and how long a sleep until a point in time may last.

use std::time::Duration;

use hostlet_base::BackoffPolicy;

/// Back-off of attempts. It is not reset while they fail.
pub(super) const PAUSES: BackoffPolicy = BackoffPolicy {
    initial: Duration::from_secs(2),
    max: Duration::from_secs(300),
    reset_after: Duration::from_secs(3600),
};

/// Random addition to a pause, as a part of it.
pub(super) const JITTER: f64 = 0.5;

/// Maximum sleep until a point in wall-clock time: the clock may be set, or the host suspended.
pub(super) const LONGEST_SLEEP: Duration = Duration::from_secs(3600);
