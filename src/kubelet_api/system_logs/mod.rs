//! `/logs/`: the files below `/var/log`, and with `enableSystemLogQuery` the logs of services (KEP-2258). Opens nothing outside that
//! directory, whatever its links say. The texts and status codes are upstream's.

mod conditions;
mod files;
mod journal;
mod query;
mod routes;

pub use self::query::{Query, QueryErrors, Wanted};
pub use self::routes::SystemLogs;

#[cfg(test)]
mod tests;
