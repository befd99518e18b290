//! `/logs/`: the files below `/var/log`, and with `enableSystemLogQuery` the logs of services (KEP-2258). Opens nothing outside that
//! directory, whatever its links say. The texts and status codes are upstream's.

mod conditions;
mod endpoint;
mod files;
mod journal;
mod query;

pub use endpoint::SystemLogs;
pub use query::{Query, QueryErrors, Wanted};

#[cfg(test)]
mod tests;
