//! Reading a container's log for people: what the container wrote, from a given line on, followed across rotation. What a
//! reader holds in memory does not depend on the size of a log or of its lines.

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
