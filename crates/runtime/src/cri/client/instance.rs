//! Identifies the instance of the runtime by the process that listens on its socket and its start time. Queries only the
//! kernel, so it works immediately with any runtime. If something else listens (a proxy, a service manager), all instances
//! look the same.

use std::path::Path;

use procfs::process::Process;
use tokio::net::UnixStream;

use hostlet_host::Host;

/// The instance of the runtime on `socket`; `None` if nothing listens or the listener is unknown.
pub(super) async fn of(socket: &Path) -> Option<String> {
    let connection = UnixStream::connect(socket).await.ok()?;
    let pid = connection.peer_cred().ok()?.pid()?;
    let started = Process::new(pid).and_then(|process| process.stat()).ok()?.starttime;
    // The start time is in ticks since boot.
    let boot = Host::new(Path::new("/proc")).boot_id().ok()?;
    Some(format!("{boot} {pid} {started}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn an_instance_is_identified_by_the_listening_process() {
        let dir = tempfile::tempdir().unwrap();
        let socket = dir.path().join("cri.sock");
        assert_eq!(of(&socket).await, None);
        let listener = tokio::net::UnixListener::bind(&socket).unwrap();
        let run = of(&socket).await.unwrap();
        assert!(run.split(' ').nth(1) == Some(&std::process::id().to_string()), "{run}");
        assert_eq!(of(&socket).await, Some(run));
        drop(listener);
        assert_eq!(of(&socket).await, None);
    }
}
