//! The Go program: a case in, what upstream makes of it out.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use anyhow::{Context, Result, ensure};
use serde::Deserialize;

use crate::case::Case;

/// Builds the program if necessary; `None` without Go.
pub(crate) fn program() -> Result<Option<PathBuf>> {
    let lib = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../integration/lib");
    let call = |function: &str| {
        let script = format!("for piece in ./*.sh; do . \"$piece\"; done; {function}");
        let output =
            Command::new("bash").args(["-euo", "pipefail", "-c", &script]).current_dir(&lib).output()?;
        let text = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        Ok::<_, anyhow::Error>((output.status.success(), text, output.stderr))
    };
    if !call("go_program")?.0 {
        return Ok(None);
    }
    let (is_built, path, errors) = call("managers_oracle")?;
    ensure!(is_built, "cannot build the oracle: {}", String::from_utf8_lossy(&errors));
    Ok(Some(path.into()))
}

/// The program, which is started again when it gave up on a case.
pub(crate) struct Oracle {
    program: PathBuf,
    running: Option<Running>,
}

struct Running {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

/// What upstream makes of a case.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Answer {
    /// Why there can be no managers.
    pub(crate) error: String,
    /// Why there is no answer: upstream panicked, or does not come to an end.
    pub(crate) broken: String,
    /// One for each step.
    pub(crate) steps: Vec<Outcome>,
    /// The files that older kubelets would have written.
    pub(crate) legacy: Option<Legacy>,
}

/// What became of a step.
#[derive(Debug, Deserialize)]
pub(crate) struct Outcome {
    /// Why the pod is rejected; empty if it is not.
    #[serde(default)]
    pub(crate) reason: String,
    /// The same for people.
    #[serde(default)]
    pub(crate) message: String,
    /// The content of `cpu_manager_state`.
    pub(crate) cpu: String,
    /// The content of `memory_manager_state`.
    pub(crate) memory: String,
}

/// The files that older kubelets would have written.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Legacy {
    /// Version 2 of `cpu_manager_state`.
    pub(crate) cpu_v2: String,
    /// Version 3 of it.
    pub(crate) cpu_v3: String,
    /// Version 1 of `memory_manager_state`.
    pub(crate) memory_v1: String,
    /// Version 2 of it.
    pub(crate) memory_v2: String,
}

impl Oracle {
    /// The oracle that is this program.
    pub(crate) fn new(program: &Path) -> Self {
        Self { program: program.to_owned(), running: None }
    }

    /// What upstream makes of a case.
    pub(crate) fn ask(&mut self, case: &Case) -> Result<Answer> {
        let running = match &mut self.running {
            Some(running) => running,
            none => none.insert(Running::start(&self.program)?),
        };
        let mut line = serde_json::to_vec(case)?;
        line.push(b'\n');
        running.input.write_all(&line).context("cannot ask the oracle")?;
        let mut answer = String::new();
        running.output.read_line(&mut answer).context("cannot read the oracle's answer")?;
        let answer: Answer = serde_json::from_str(&answer).context("the oracle has no answer")?;
        if !answer.broken.is_empty() {
            // It ends by itself if something in it does not.
            if let Some(running) = self.running.take() {
                running.end();
            }
        }
        Ok(answer)
    }
}

impl Drop for Oracle {
    fn drop(&mut self) {
        if let Some(running) = self.running.take() {
            running.end();
        }
    }
}

impl Running {
    fn start(program: &Path) -> Result<Self> {
        let mut command = Command::new(program);
        // It writes a file per change.
        if Path::new("/dev/shm").is_dir() {
            command.env("TMPDIR", "/dev/shm");
        }
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let input = child.stdin.take().context("no input")?;
        let output = BufReader::new(child.stdout.take().context("no output")?);
        Ok(Self { child, input, output })
    }

    /// Its input ends, and with that the program.
    fn end(self) {
        let Self { mut child, input, output } = self;
        drop((input, output));
        let _ = child.wait();
    }
}
