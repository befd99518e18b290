//! Connection pool for the API server. Watches have their own connections, as many as the server's stream limit requires, so
//! that requests never queue behind them. A dead connection is detected and replaced within ten seconds. Of a request it knows
//! only whether it is a watch.

mod connection;
mod dial;
mod lane;
mod metrics;
mod service;
mod slot;
#[cfg(test)]
mod tests;

pub use lane::{Connections, LaneCounts};
pub use service::Purpose;
pub(super) use service::{Pool, is_watch};
pub(super) use slot::ResponseBody;
