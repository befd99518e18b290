//! `/exec`, `/attach`, `/portForward` and `/run`: commands in containers, their own processes, and connections to ports of pods. The
//! runtime serves the streams; clients of SPDY and of older WebSocket protocols are connected to it as they are.

mod client;
mod copy;
mod error;
mod handlers;
mod idle;
mod query;
mod reports;
mod sessions;
#[cfg(test)]
mod sessions_tests;
mod target;
#[cfg(test)]
pub(super) mod testing;
#[cfg(test)]
mod tests;
mod translate;
mod tunnel;
mod websocket;

pub(crate) use handlers::routes;
pub use handlers::{StreamDeps, StreamMetrics};
pub use query::{Parameters, QueryError};
pub use translate::ClientMessage;
