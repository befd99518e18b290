//! Who may use an image that is present (KEP-2535): records of the credentials that images were pulled with, and whether they
//! suffice for another pod. Pulls nothing, and never stores or shows a credential.

mod ledger;
mod metrics;
mod policy;
mod record;
mod stock;
mod upkeep;

pub(super) use ledger::{PullRecords, Verdict};
pub(super) use stock::StockRecords;
pub use upkeep::RecordUpkeep;

#[cfg(test)]
mod tests;
