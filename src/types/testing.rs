//! What tests of all rooms share.

use jiff::Timestamp;

/// The moment so many seconds after 1970 began.
pub(crate) fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}
