//! Connections to the API server. Watches have connections of their own, and as many as the server's limit on streams makes
//! necessary, so that requests never wait behind them; a connection that is dead is found and replaced within ten seconds. Knows
//! nothing of what is asked, but whether it is a watch.

mod connection;
mod dial;
mod lane;
mod metrics;
mod service;
#[cfg(test)]
mod tests;

pub(super) use connection::AnswerBody;
pub use lane::{Connections, LaneCounts};
pub(super) use service::Pool;
pub use service::Purpose;
