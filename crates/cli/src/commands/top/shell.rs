//! A shell in a container, which has the terminal until it ends.

use std::io;
use std::path::Path;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tokio::process::Command;

use crate::commands::signals::EndingSignals;
use crate::commands::terminal::SavedTerminal;

/// The container of a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Target {
    /// `<namespace>/<name>` of the pod.
    pub(super) pod: String,
    /// Its name.
    pub(super) container: String,
}

/// Runs a shell by `hostlet exec`, and says how it ended; `None` if a signal asks to end the view.
pub(super) async fn shell(
    socket: &Path,
    target: &Target,
    signals: &mut EndingSignals,
) -> io::Result<Option<String>> {
    let Target { pod, container } = target;
    // It restores the terminal itself, unless it is killed.
    let _terminal = SavedTerminal::of_stdin()?;
    // This program, even if its file was replaced meanwhile (proc_pid_exe(5)).
    let mut command = Command::new("/proc/self/exe");
    command.arg0("hostlet").args(["exec", "-i", "-t", "--container", container, "--socket"]).arg(socket);
    let mut child = command.args([pod, "--", "sh"]).spawn()?;
    let mut is_asked_to_end = false;
    let status = loop {
        tokio::select! {
            // Cancel-safe, both: the status of the child and signals are kept until they are returned.
            status = child.wait() => break status?,
            signal = signals.next() => match signal {
                // From the keyboard, which the shell has.
                Signal::SIGINT | Signal::SIGQUIT => {}
                _ => {
                    is_asked_to_end = true;
                    if let Some(id) = child.id().and_then(|id| i32::try_from(id).ok()) {
                        let _ = kill(Pid::from_raw(id), Signal::SIGTERM);
                    }
                }
            },
        }
    };
    let how = match status.code() {
        Some(0) => "has exited".to_owned(),
        Some(code) => format!("exited with code {code}; quit to see its output"),
        None => "was killed by a signal".to_owned(),
    };
    Ok((!is_asked_to_end).then(|| format!("the shell in container {container} of {pod} {how}")))
}
