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
mod tests {
    use std::collections::BTreeMap;
    use std::fs;

    use tempfile::TempDir;

    use super::*;
    use hostlet_runtime::cri::ContainerState;

    struct Bench {
        root: TempDir,
        status: ContainerStatus,
    }

    /// A container that failed, with the policy to fall back to its log.
    fn bench() -> Bench {
        let root = TempDir::new().unwrap();
        let status = ContainerStatus {
            id: "c1".into(),
            sandbox: None,
            name: "c".into(),
            attempt: 0,
            state: ContainerState::Exited,
            created_at: jiff::Timestamp::UNIX_EPOCH,
            started_at: None,
            finished_at: None,
            exit_code: 1,
            reason: "Error".to_owned(),
            message: String::new(),
            image: "img".to_owned(),
            image_ref: "sha256:1".to_owned(),
            hash: None,
            grace_seconds: None,
            pre_stop: None,
            log_path: root.path().join("0.log").to_str().unwrap().to_owned(),
            termination_log: Some(root.path().join("message").to_str().unwrap().to_owned()),
            termination_policy: FALLBACK_TO_LOGS.to_owned(),
            user: None,
            stop_signal: None,
            image_mounts: BTreeMap::new(),
        };
        Bench { root, status }
    }

    impl Bench {
        fn message(&self, content: impl AsRef<[u8]>) {
            fs::write(self.root.path().join("message"), content).unwrap();
        }

        fn log(&self, lines: impl IntoIterator<Item = String>) {
            let lines = lines.into_iter().map(|l| format!("2025-01-02T03:04:05.678Z stdout F {l}\n"));
            fs::write(self.root.path().join("0.log"), lines.collect::<String>()).unwrap();
        }
    }

    #[test]
    fn the_file_wins_over_the_log_and_the_runtimes_message_is_not_repeated() {
        let mut bench = bench();
        bench.message("no disk\n");
        bench.log(["noise".to_owned()]);
        assert_eq!(termination_message(&bench.status), "no disk\n");
        bench.status.message = "OOM".to_owned();
        assert_eq!(termination_message(&bench.status), "no disk\n");
    }

    #[test]
    fn the_last_bytes_of_a_long_file_are_taken() {
        let bench = bench();
        bench.message(format!("{}{}", "é".repeat(3000), "x"));
        let message = termination_message(&bench.status);
        assert_eq!(message, format!("{}x", "é".repeat(2047)), "the cut character is left out");
    }

    #[test]
    fn an_empty_or_missing_file_gives_way_to_the_end_of_the_log() {
        let mut bench = bench();
        bench.log((0..100).map(|n| format!("line {n}")));
        let message = termination_message(&bench.status);
        assert!(message.starts_with("line 20\n") && message.ends_with("line 99\n"), "{message}");
        bench.message("");
        assert_eq!(termination_message(&bench.status), message);
        bench.status.termination_log = None;
        assert_eq!(termination_message(&bench.status), message);
    }

    #[test]
    fn the_log_is_cut_to_its_last_bytes() {
        let bench = bench();
        bench.log(["a".repeat(3000), "b".repeat(1000), "c".repeat(1000)]);
        let message = termination_message(&bench.status);
        let expected = format!("{}\n{}\n{}\n", "a".repeat(45), "b".repeat(1000), "c".repeat(1000));
        assert_eq!(message, expected);
        assert_eq!(message.len(), MAX_LOG_BYTES);
    }

    #[test]
    fn lines_the_runtime_cut_are_joined_and_garbage_is_left_out() {
        let bench = bench();
        let log = "2025-01-02T03:04:05Z stderr P one \ngarbage\n2025-01-02T03:04:05Z stdout F line\n";
        fs::write(bench.root.path().join("0.log"), log).unwrap();
        assert_eq!(termination_message(&bench.status), "one line\n");
    }

    #[test]
    fn the_log_is_not_read_needlessly() {
        let mut bench = bench();
        bench.log(["noise".to_owned()]);
        bench.status.exit_code = 0;
        assert_eq!(termination_message(&bench.status), "");
        bench.status.exit_code = 128;
        bench.status.reason = "ContainerCannotRun".to_owned();
        assert_eq!(termination_message(&bench.status), "");
        bench.status.reason = "Error".to_owned();
        bench.status.termination_policy = "File".to_owned();
        assert_eq!(termination_message(&bench.status), "");
    }

    #[test]
    fn a_read_error_becomes_the_message() {
        let mut bench = bench();
        let message = termination_message(&bench.status);
        assert!(
            message.starts_with("Error on reading termination message from logs: No such file"),
            "{message}"
        );

        let fifo = bench.root.path().join("fifo");
        nix::unistd::mkfifo(&fifo, nix::sys::stat::Mode::S_IRUSR).unwrap();
        bench.status.termination_log = Some(fifo.to_str().unwrap().to_owned());
        let message = termination_message(&bench.status);
        assert_eq!(
            message,
            format!("Error on reading termination log {}: not a regular file", fifo.display())
        );
    }
}
