//! Reads a container's output from its log, from a given line, following rotation. A reader's memory does not depend on the size
//! of a log or of its lines.

mod decode;
mod files;
mod last;
mod options;
mod reader;
mod stream;
mod watches;

pub use options::LogOptions;
pub use stream::{LogStreaming, Until};
pub use watches::LogWatches;

#[cfg(test)]
mod decode_tests;
#[cfg(test)]
mod stream_tests;
