//! Container log layout: directories, file names and the links under `/var/log/containers`; reads logs and the messages
//! containers leave. Never writes into a log: that is the runtime's.
//!
//! All I/O here is short and blocking (a few small files of one pod); callers on a busy runtime thread use
//! `spawn_blocking` where a slow disk may hurt.

mod cleanup;
mod error;
mod layout;
mod line;
mod names;
mod read;
mod tail;
mod termination;

pub use cleanup::LogCleanUp;
pub use error::LogError;
pub use layout::LogLayout;
pub use line::{LogLine, LogLineError, LogStream};
pub use names::container_log_path;
pub use read::{LogOptions, LogStreaming, Until};
pub use tail::tail_start;
pub use termination::{log_end, termination_message};
