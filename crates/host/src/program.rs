//! Runs a program and returns its output: bounded in time and output, and no process of its process group is left behind if the
//! wait ends early. Does not know what the output means.

use std::io::ErrorKind;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::process::{ChildStdin, Command};

/// Maximum kept output in bytes, of each stream. A certificate with its key, or a registry's token, is a few KiB.
const MAX_OUTPUT: u64 = 1 << 20;

/// Maximum length of reported error output, in bytes.
const MAX_STDERR: usize = 300;

/// Why a program yielded no output.
#[derive(Debug, thiserror::Error)]
pub enum ProgramError {
    /// It could not be started.
    #[error("it cannot be started")]
    Start(#[source] std::io::Error),
    /// Its pipes failed.
    #[error("its output cannot be read")]
    Read(#[source] std::io::Error),
    /// It did not exit in time.
    #[error("it did not exit within {} s and was killed", .0.as_secs())]
    TimedOut(Duration),
    /// It exited with an error.
    #[error("it failed ({status}){}", after_colon(stderr))]
    Failed {
        /// How it exited.
        status: ExitStatus,
        /// The beginning of its error output, as one line.
        stderr: String,
    },
}

fn after_colon(text: &str) -> String {
    if text.is_empty() { String::new() } else { format!(": {text}") }
}

/// Kills a process group if dropped before its leader exited.
struct Group(Option<Pid>);

impl Drop for Group {
    fn drop(&mut self) {
        if let Some(group) = self.0 {
            // It may have exited already.
            let _ = killpg(group, Signal::SIGKILL);
        }
    }
}

/// Runs `command` with `input` on its standard input, and returns its output, of which only the first mebibyte is kept. Waits for
/// `limit` at most. Cancel-safe: if dropped, the program is killed with its process group.
pub async fn run_program(
    mut command: Command,
    input: Vec<u8>,
    limit: Duration,
) -> Result<Vec<u8>, ProgramError> {
    let stdin = if input.is_empty() { Stdio::null() } else { Stdio::piped() };
    command.stdin(stdin).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
    let mut child = command.spawn().map_err(ProgramError::Start)?;
    let mut group = Group(child.id().and_then(|id| i32::try_from(id).ok()).map(Pid::from_raw));
    let (stdin, output, errors) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let exit = tokio::time::timeout(limit, async {
        let written = write(stdin, input);
        let (written, output, errors, status) =
            tokio::join!(written, read(output), read(errors), child.wait());
        written?;
        Ok::<_, std::io::Error>((output?, errors?, status?))
    });
    let exit = exit.await.map_err(|_| ProgramError::TimedOut(limit))?;
    let (output, errors, status) = exit.map_err(ProgramError::Read)?;
    // Its process group ID may have been reused.
    group.0 = None;
    if !status.success() {
        return Err(ProgramError::Failed { status, stderr: clip(&String::from_utf8_lossy(&errors)) });
    }
    Ok(output)
}

/// Writes the input and closes the pipe. A program need not read it.
async fn write(to: Option<ChildStdin>, input: Vec<u8>) -> std::io::Result<()> {
    let Some(mut to) = to else { return Ok(()) };
    match to.write_all(&input).await {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        written => written,
    }
}

/// Reads to the end and keeps the beginning.
async fn read(from: Option<impl AsyncRead + Unpin>) -> std::io::Result<Vec<u8>> {
    let mut kept = Vec::new();
    if let Some(mut from) = from {
        (&mut from).take(MAX_OUTPUT).read_to_end(&mut kept).await?;
        tokio::io::copy(&mut from, &mut tokio::io::sink()).await?;
    }
    Ok(kept)
}

/// Joins and shortens an output to one line.
pub fn clip(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(MAX_STDERR) {
        Some((end, _)) => format!("{}…", line.get(..end).unwrap_or_default()),
        None => line,
    }
}

#[cfg(test)]
mod tests {
    use tempfile::TempDir;

    use super::*;
    use hostlet_base::error_chain;

    const LIMIT: Duration = Duration::from_secs(60);

    async fn run(script: &str, input: &str, limit: Duration) -> Result<String, String> {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        let output = run_program(command, input.as_bytes().to_vec(), limit).await;
        output.map(|bytes| String::from_utf8(bytes).unwrap()).map_err(|error| error_chain(&error))
    }

    #[tokio::test]
    async fn a_program_gets_its_input_and_need_not_read_it() {
        assert_eq!(run("cat", "hello", LIMIT).await.unwrap(), "hello");
        let large = "x".repeat(1 << 20);
        assert_eq!(run("echo no", &large, LIMIT).await.unwrap(), "no\n");
        // More than pipes hold, in both directions.
        assert_eq!(run("cat", &large, LIMIT).await.unwrap(), large);
        assert_eq!(run("cat", "", LIMIT).await.unwrap(), "", "without input it reads nothing");
    }

    #[tokio::test]
    async fn output_and_errors_are_bounded() {
        let endless = "yes x | tr -d '\\n' | head -c 3000000";
        assert_eq!(run(endless, "", LIMIT).await.unwrap().len(), 1 << 20);
        let error = run(&format!("{endless} >&2; exit 1"), "", LIMIT).await.unwrap_err();
        assert!(error.starts_with("it failed (exit status: 1): xxx") && error.len() < 400, "{error}");
        let error = run("echo 'not a\nline' >&2; exit 7", "", LIMIT).await.unwrap_err();
        assert_eq!(error, "it failed (exit status: 7): not a line");
        let missing = run_program(Command::new("/none/such"), Vec::new(), LIMIT).await.unwrap_err();
        assert!(error_chain(&missing).starts_with("it cannot be started: No such file"));
    }

    #[tokio::test]
    async fn a_hanging_program_is_killed_with_its_children() {
        let dir = TempDir::new().unwrap();
        let noted = dir.path().join("pid");
        let script = format!("sleep 100000 & echo $! > {0}.new; mv {0}.new {0}; wait", noted.display());
        let started = async {
            while !noted.exists() {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        // Dropped, as by the time limit.
        tokio::select! {
            output = run(&script, "", LIMIT) => panic!("{output:?}"),
            () = started => {}
        }
        let pid: i32 = std::fs::read_to_string(&noted).unwrap().trim().parse().unwrap();
        let gone = async {
            // A zombie counts as gone, because nobody may reap it.
            while std::fs::read_to_string(format!("/proc/{pid}/stat"))
                .is_ok_and(|stat| !stat.contains(") Z "))
            {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        tokio::time::timeout(LIMIT, gone).await.unwrap();
        let error = run("sleep 100000", "", Duration::from_millis(100)).await.unwrap_err();
        assert_eq!(error, "it did not exit within 0 s and was killed");
    }
}
