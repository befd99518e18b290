//! The CRI over gRPC on a unix socket.

mod connection;
mod convert;
mod events;
mod image;
mod runtime;

pub use connection::CriClient;
