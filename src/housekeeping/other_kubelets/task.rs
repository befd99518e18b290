//! The task that looks for them.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::endpoint::runtime_socket;
use crate::node::{NodeEvent, NodeEvents};
use crate::sys::{SysError, file_work, kubelets};
use crate::telemetry::Changed;
use crate::types::error_chain;

/// Between two looks.
const PERIOD: Duration = Duration::from_secs(60);

/// Looks for other kubelets on our runtime, again and again. To be run by the app.
pub struct OtherKubelets {
    /// The socket of the runtime.
    pub socket: PathBuf,
    /// Where processes are to be seen, `/proc`.
    pub proc: PathBuf,
    /// Which there are, in a sentence; none if there are none.
    pub told: watch::Sender<Option<String>>,
    /// Where events of the node go.
    pub events: NodeEvents,
}

impl OtherKubelets {
    /// Runs until cancelled; looks at once.
    pub async fn run(self, cancel: CancellationToken) {
        let mut last = Changed::new();
        loop {
            let look = async {
                self.look(&mut last).await;
                sleep(PERIOD).await;
            };
            tokio::select! {
                // Cancel-safe: waiting for a token takes nothing.
                () = cancel.cancelled() => return,
                // Cancel-safe: looking changes nothing.
                () = look => {}
            }
        }
    }

    async fn look(&self, last: &mut Changed<Option<String>>) {
        let (proc, socket) = (self.proc.clone(), self.socket.clone());
        let looked = file_work(move || find(&proc, &socket)).await;
        let found = match looked.unwrap_or_else(|source| Err(SysError::Step { source })) {
            Ok(found) => found,
            // Nothing is known now; the next look is soon enough.
            Err(error) => {
                tracing::debug!(error = error_chain(&error), "cannot look for other kubelets");
                return;
            }
        };
        if !last.see(found.clone()) {
            return;
        }
        match &found {
            Some(problem) => {
                tracing::error!(problem, "another kubelet is at work on this runtime");
                (self.events)(NodeEvent::other_kubelet(problem.clone()));
            }
            None => tracing::debug!("no other kubelet is at work on this runtime"),
        }
        self.told.send_if_modified(|known| {
            let is_news = *known != found;
            *known = found;
            is_news
        });
    }
}

/// Who else works on the runtime at `socket`. Blocking.
fn find(proc: &Path, socket: &Path) -> Result<Option<String>, SysError> {
    let mut others: Vec<i32> = kubelets(proc)?
        .into_iter()
        .filter(|kubelet| is_same(&runtime_socket(kubelet), socket))
        .map(|kubelet| kubelet.pid)
        .collect();
    others.sort_unstable();
    let others: Vec<String> = others.iter().map(ToString::to_string).collect();
    Ok((!others.is_empty()).then(|| {
        format!(
            "another kubelet (process {}) works on the same container runtime, {}: each removes the pods of the other; stop \
             it and keep it from starting (systemctl disable --now kubelet), or give hostlet another runtime",
            others.join(", "),
            socket.display()
        )
    }))
}

/// Whether both names lead to one socket, also through links (`/var/run`).
fn is_same(a: &Path, b: &Path) -> bool {
    let identity = |path: &Path| fs::metadata(path).map(|found| (found.dev(), found.ino()));
    match (identity(a), identity(b)) {
        (Ok(a), Ok(b)) => a == b,
        // The runtime is away: its name is all there is.
        (Err(_), Err(_)) => a == b,
        (Ok(_), Err(_)) | (Err(_), Ok(_)) => false,
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;
    use std::sync::Arc;

    use parking_lot::Mutex;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn another_kubelet_on_this_runtime_is_told_while_it_is_there() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        fs::create_dir_all(path("run")).unwrap();
        for socket in ["run/ours.sock", "run/theirs.sock"] {
            fs::write(path(socket), "").unwrap();
        }
        symlink("run", path("var-run")).unwrap();
        let process = |pid: &str, socket: &Path| {
            let process = path("proc").join(pid);
            fs::create_dir_all(process.join("ns")).unwrap();
            fs::write(process.join("comm"), "kubelet\n").unwrap();
            let line = format!("kubelet\0--container-runtime-endpoint\0unix://{}\0", socket.display());
            fs::write(process.join("cmdline"), line).unwrap();
            for (link, target) in [("exe", "/usr/bin/kubelet"), ("cwd", "/"), ("ns/mnt", "mnt:[1]")] {
                symlink(target, process.join(link)).unwrap();
            }
        };
        process("self", Path::new("/none"));
        process("7", &path("run/theirs.sock"));
        let (told, mut shown) = watch::channel(None);
        let events = Arc::new(Mutex::new(Vec::new()));
        let seen = events.clone();
        let task = OtherKubelets {
            socket: path("run/ours.sock"),
            proc: path("proc"),
            told,
            events: Arc::new(move |event| seen.lock().push(event)),
        };
        let cancel = CancellationToken::new();
        let story = async {
            // Nothing is wrong with a kubelet on another runtime.
            sleep(PERIOD * 2).await;
            assert_eq!(*shown.borrow_and_update(), None);
            process("8", &path("var-run/ours.sock"));
            let problem = shown.wait_for(Option::is_some).await.unwrap().clone().unwrap();
            assert!(problem.contains("(process 8)") && problem.contains("stop it"), "{problem}");
            sleep(PERIOD * 3).await;
            fs::remove_dir_all(path("proc/8")).unwrap();
            shown.wait_for(Option::is_none).await.unwrap();
            cancel.cancel();
        };
        tokio::join!(task.run(cancel.clone()), story);
        let events: Vec<_> = events.lock().iter().map(|event| event.reason.clone()).collect();
        assert_eq!(events, ["OtherKubeletOnRuntime"]);
    }
}
