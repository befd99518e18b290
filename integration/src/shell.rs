//! Runs programs, and the functions of `integration/lib`, which the quickstart shares. Every failure has the command and its
//! output.

use std::ffi::OsStr;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use anyhow::{Context, Result, bail};

/// Sources every piece of `integration/lib`, then calls the function named by the first argument.
const CALL: &str = r#"for piece in "$1"/lib/*.sh; do . "$piece"; done; shift; "$@""#;

/// Runs a program; returns its output, or an error with its output.
pub(crate) fn run(command: &mut Command) -> Result<String> {
    let output = command.output().with_context(|| format!("{command:?}"))?;
    text(&output).with_context(|| format!("{command:?}"))
}

/// The output of a successful program, else an error with its output.
pub(crate) fn text(output: &Output) -> Result<String> {
    let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
    if !output.status.success() {
        bail!("{}: {stdout}{}", output.status, String::from_utf8_lossy(&output.stderr));
    }
    Ok(stdout)
}

/// Calls a function of `integration/lib`; returns its output.
pub(crate) fn lib<A: AsRef<OsStr>>(function: &str, args: impl IntoIterator<Item = A>) -> Result<String> {
    lib_in(Command::new("bash"), function, args)
}

/// The same with this command of bash, which may run elsewhere.
pub(crate) fn lib_in<A: AsRef<OsStr>>(
    mut bash: Command,
    function: &str,
    args: impl IntoIterator<Item = A>,
) -> Result<String> {
    bash.args(["-euo", "pipefail", "-c", CALL, "bash"]).arg(integration_dir()).arg(function).args(args);
    run(&mut bash)
}

/// Starts a program whose output is appended to a file.
pub(crate) fn spawn_logged(command: &mut Command, log: &Path) -> Result<Child> {
    let file = File::options().create(true).append(true).open(log);
    let file = file.with_context(|| format!("opening {}", log.display()))?;
    let second = file.try_clone().context("a second handle of a log")?;
    Ok(command.stdin(Stdio::null()).stdout(second).stderr(file).spawn()?)
}

/// The last lines of a file, for a failed test's report; empty if it does not exist.
pub(crate) fn tail(file: &Path) -> String {
    const LINES: usize = 40;
    let text = std::fs::read_to_string(file).unwrap_or_default();
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(LINES)..].join("\n")
}

/// The directory of this crate in the source tree.
pub(crate) fn integration_dir() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// cargo's output directory, from the running program's path: `<target>/<profile>`, or its `deps` for a test.
pub(crate) fn profile_dir() -> Result<PathBuf> {
    let program = std::env::current_exe().context("the path of the running program")?;
    let dir = program.parent().context("the program lies in no build directory")?;
    let profile = if dir.ends_with("deps") { dir.parent().unwrap_or(dir) } else { dir };
    Ok(profile.to_path_buf())
}
