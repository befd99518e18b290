//! Reads a container's output from its log, from a given line, following rotation. A reader's memory does not depend on the size
//! of a log or of its lines.

mod decode;
mod file;
mod last;
mod rotation;
mod stream;

pub use file::LogOptions;
pub use stream::{LogStreaming, Until};

#[cfg(test)]
mod decode_tests;
#[cfg(test)]
mod stream_tests;
