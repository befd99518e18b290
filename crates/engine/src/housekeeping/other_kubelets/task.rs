//! The task that looks for other kubelets.

use std::path::{Path, PathBuf};
use std::time::Duration;

use hostlet_base::error_chain;
use hostlet_base::node::{NodeEvent, NodeEvents};
use hostlet_host::{SysError, file_work};
use hostlet_telemetry::Changed;
use tokio::sync::watch;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use crate::ownership::{BESIDE, other_kubelets};

/// Interval between checks.
const PERIOD: Duration = Duration::from_secs(60);

/// Periodically looks for other kubelets on the same runtime. The app runs it.
pub struct OtherKubelets {
    /// The socket of the runtime.
    pub socket: PathBuf,
    /// Mount point of procfs, `/proc`.
    pub proc: PathBuf,
    /// Where a sentence about them is published; `None` if there are none.
    pub problem: watch::Sender<Option<String>>,
    /// Receives events about the node.
    pub events: NodeEvents,
}

impl OtherKubelets {
    /// Runs until cancelled; checks at once.
    pub async fn run(self, cancel: CancellationToken) {
        let mut last = Changed::new();
        loop {
            let check = async {
                self.check(&mut last).await;
                sleep(PERIOD).await;
            };
            tokio::select! {
                // Cancel-safe: waits for a token.
                () = cancel.cancelled() => return,
                // Cancel-safe: it only reads.
                () = check => {}
            }
        }
    }

    async fn check(&self, last: &mut Changed<Option<String>>) {
        let (proc, socket) = (self.proc.clone(), self.socket.clone());
        let searched = file_work(move || find(&proc, &socket)).await;
        let found = match searched.unwrap_or_else(|source| Err(SysError::Step { source })) {
            Ok(found) => found,
            // Unknown now; the next check is soon enough.
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
                tracing::error!(problem, "another kubelet uses this runtime");
                (self.events)(NodeEvent::warning("OtherKubeletOnRuntime", problem.clone()));
            }
            None => tracing::debug!("no other kubelet uses this runtime"),
        }
        self.problem.send_if_modified(|known| {
            let is_news = *known != found;
            *known = found;
            is_news
        });
    }
}

/// A sentence about other kubelets that use the runtime at `socket`. Blocking.
fn find(proc: &Path, socket: &Path) -> Result<Option<String>, SysError> {
    let others: Vec<String> = other_kubelets(proc, socket)?.iter().map(ToString::to_string).collect();
    Ok((!others.is_empty()).then(|| {
        format!(
            "another kubelet ({}) works on the same container runtime, {}: each removes the pods of the other; stop \
             it and keep it from starting (systemctl disable --now kubelet), or give hostlet {BESIDE}",
            others.join(", "),
            socket.display()
        )
    }))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;
    use std::sync::Arc;

    use parking_lot::Mutex;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn another_kubelet_on_this_runtime_is_reported_while_it_runs() {
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
        let (problem, mut published) = watch::channel(None);
        let events = Arc::new(Mutex::new(Vec::new()));
        let seen = events.clone();
        let task = OtherKubelets {
            socket: path("run/ours.sock"),
            proc: path("proc"),
            problem,
            events: Arc::new(move |event| seen.lock().push(event)),
        };
        let cancel = CancellationToken::new();
        let scenario = async {
            // A kubelet on another runtime is not reported; the sweep reports what it has here.
            sleep(PERIOD * 2).await;
            assert_eq!(*published.borrow_and_update(), None);
            process("8", &path("var-run/ours.sock"));
            let problem = published.wait_for(Option::is_some).await.unwrap().clone().unwrap();
            assert!(problem.contains("(process 8)") && problem.contains("stop it"), "{problem}");
            sleep(PERIOD * 3).await;
            fs::remove_dir_all(path("proc/8")).unwrap();
            published.wait_for(Option::is_none).await.unwrap();
            cancel.cancel();
        };
        tokio::join!(task.run(cancel.clone()), scenario);
        let events: Vec<_> = events.lock().iter().map(|event| event.reason.clone()).collect();
        assert_eq!(events, ["OtherKubeletOnRuntime"]);
    }
}
