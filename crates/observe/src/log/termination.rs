//! A container's termination message (Kubernetes docs, "Determine the Reason for Pod Failure").

use std::collections::VecDeque;
use std::io::{self, BufRead, BufReader, ErrorKind, Read, Seek, SeekFrom};
use std::path::Path;

use hostlet_base::reasons;
use hostlet_host::{Links, open_regular};
use hostlet_runtime::cri::ContainerStatus;

use super::line::LogLine;
use super::tail::tail_start;

/// Maximum bytes read from a termination log, from its end.
const MAX_MESSAGE: u64 = 4096;
/// Maximum bytes taken from a container's log instead.
const MAX_LOG_BYTES: usize = 2048;
/// Maximum lines taken from a container's log.
const MAX_LOG_LINES: usize = 80;
/// Search window for these lines, in bytes; 80 of the longest lines that runtimes write (16 KiB) fit.
const LOG_WINDOW: u64 = 2 << 20;
/// The policy that uses the end of the log if a failed container left no message.
const FALLBACK_TO_LOGS: &str = "FallbackToLogsOnError";

/// The termination message of an exited container: the end of its termination log or, by its policy, of its log. Empty if there
/// is none. As upstream, a read error becomes the message. The runtime's own message is not included.
///
/// Blocks on up to two files, of which it reads at most 4 KiB and 2 MiB.
pub(crate) fn termination_message(status: &ContainerStatus) -> String {
    if let Some(path) = &status.termination_log {
        match read_end(Path::new(path)) {
            Ok(message) if !message.is_empty() => return message,
            Ok(_) => {}
            Err(e) if e.kind() == ErrorKind::NotFound => {}
            Err(e) => return format!("Error on reading termination log {path}: {e}"),
        }
    }
    let falls_back = status.termination_policy == FALLBACK_TO_LOGS
        && status.exit_code != 0
        && status.reason != reasons::CONTAINER_CANNOT_RUN;
    if !falls_back {
        return String::new();
    }
    log_end(Path::new(&status.log_path))
        .unwrap_or_else(|e| format!("Error on reading termination message from logs: {e}"))
}

/// The last bytes of a file, as text.
fn read_end(path: &Path) -> io::Result<String> {
    let mut file = open_regular(path, Links::Followed)?;
    let size = file.seek(SeekFrom::End(0))?;
    file.seek(SeekFrom::Start(size.saturating_sub(MAX_MESSAGE)))?;
    let mut bytes = Vec::new();
    // The container may still write to the file.
    file.take(MAX_MESSAGE).read_to_end(&mut bytes)?;
    Ok(text_of(&bytes))
}

/// The last lines of a log, both streams in order, at most 2 KiB. Blocks.
pub fn log_end(path: &Path) -> io::Result<String> {
    let mut file = open_regular(path, Links::Followed)?;
    let start = tail_start(&mut file, MAX_LOG_LINES, LOG_WINDOW)?;
    file.seek(SeekFrom::Start(start))?;
    let mut lines = BufReader::new(file.take(LOG_WINDOW));
    let mut end = VecDeque::with_capacity(MAX_LOG_BYTES);
    let mut line = Vec::new();
    for _ in 0..MAX_LOG_LINES {
        line.clear();
        if lines.read_until(b'\n', &mut line)? == 0 {
            break;
        }
        // Skips malformed lines.
        let Ok(parsed) = LogLine::parse(&line) else { continue };
        let content = &parsed.content[parsed.content.len().saturating_sub(MAX_LOG_BYTES)..];
        let surplus = (end.len() + content.len()).saturating_sub(MAX_LOG_BYTES);
        end.drain(..surplus);
        end.extend(content);
    }
    Ok(text_of(end.make_contiguous()))
}

/// Converts bytes to text, without a truncated character at the start.
fn text_of(bytes: &[u8]) -> String {
    let is_continuation = |b: &&u8| **b & 0xc0 == 0x80;
    let cut = bytes.iter().take(3).take_while(is_continuation).count();
    String::from_utf8_lossy(&bytes[cut..]).into_owned()
}

#[cfg(test)]
#[path = "termination_tests.rs"]
mod tests;
