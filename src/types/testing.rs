//! What tests of all rooms share.

use jiff::Timestamp;

use super::{Quantity, ResourceList};

/// The moment so many seconds after 1970 began.
pub(crate) fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

/// These amounts of these resources.
pub(crate) fn resource_list<const N: usize>(amounts: [(&str, &str); N]) -> ResourceList {
    amounts.into_iter().map(|(name, amount)| (name, Quantity::parse(amount).unwrap())).collect()
}
