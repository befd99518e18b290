//! Container logs: directories, file names and the links under `/var/log/containers`; reads logs and termination messages. Never
//! writes a log, which is the runtime's job.
//!
//! All I/O is short and blocking (a few small files of one pod); callers use `spawn_blocking` where a slow disk matters.

mod cleanup;
mod error;
mod layout;
mod line;
mod names;
mod read;
mod rotated;
mod tail;
mod termination;

pub use cleanup::LogCleanUp;
pub use error::{LogError, at};
pub use layout::LogLayout;
pub use line::{LogLine, LogLineError, LogStream};
pub use names::{container_log_path, pod_dir_name};
pub use read::{LogOptions, LogStreaming, LogWatches, Until};
pub use rotated::{RotatedForm, RotatedLog, RotationStamp};
pub use termination::log_end;
pub(crate) use termination::termination_message;
