//! The CRI client over gRPC on a Unix socket.

mod connection;
pub(super) mod convert;
mod entries;
mod events;
mod image;
mod instance;
mod last_list;
#[cfg(test)]
mod last_list_tests;
mod owners;
mod pods;
mod runtime;
mod settings;
mod stream_support;
mod streams;
mod traced;

pub use connection::CriClient;
pub use owners::{Stored, StoredTask};
pub use settings::containerd_settings;
