//! What a reader of a log asks for.

use jiff::Timestamp;

use crate::log::LogStream;

/// Options of reading a log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogOptions {
    /// Only this many last lines. Unlike with the stock kubelet, lines of rotated files count too.
    pub tail: Option<u64>,
    /// Only lines from this time on; applied to the last lines if both are given.
    pub since: Option<Timestamp>,
    /// Prefix each line with the runtime's timestamp, with nanoseconds, and a space.
    pub timestamps: bool,
    /// Only lines of this stream.
    pub stream: Option<LogStream>,
    /// Only this many bytes of output.
    pub limit: Option<u64>,
}
