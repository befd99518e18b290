//! Errors of a connection.

use std::io;

/// Why a connection or a stream failed.
#[derive(Debug, thiserror::Error)]
pub enum SpdyError {
    /// The connection could not be read.
    #[error("cannot read from the streaming server")]
    Read(#[source] io::Error),
    /// The connection could not be written.
    #[error("cannot write to the streaming server")]
    Write(#[source] io::Error),
    /// The server sent what is not SPDY/3.
    #[error("the streaming server sent an invalid frame: {0}")]
    InvalidFrame(&'static str),
    /// The server refused a stream.
    #[error("the streaming server refused the stream (RST_STREAM status {0})")]
    Refused(u32),
    /// The connection has ended.
    #[error("the connection to the streaming server has ended")]
    Ended,
}
