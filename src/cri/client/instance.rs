//! Which run of the runtime answers: the process that listens on its socket, and when that began. Asks the kernel only, so
//! the answer is that of any runtime, at once. Where somebody else listens for the runtime (a proxy, a service manager)
//! all its runs look like one.

use std::path::Path;

use procfs::process::Process;
use tokio::net::UnixStream;

use crate::sys::Host;

/// The run of the runtime on `socket`; none if nobody listens, or if it cannot be told who.
pub(super) async fn of(socket: &Path) -> Option<String> {
    let connection = UnixStream::connect(socket).await.ok()?;
    let pid = connection.peer_cred().ok()?.pid()?;
    let started = Process::new(pid).and_then(|process| process.stat()).ok()?.starttime;
    // A process's beginning is told in ticks since the boot.
    let boot = Host::new(Path::new("/proc")).boot_id().ok()?;
    Some(format!("{boot} {pid} {started}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn it_is_told_by_the_process_that_listens() {
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
