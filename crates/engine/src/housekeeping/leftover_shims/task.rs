//! The task that finds leftover shims and kills them.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use hostlet_base::error_chain;
use hostlet_host::{Mounts, Shim, SysError, end_shim, file_work, shims};
use hostlet_runtime::cri::{CriClient, CriError, Stored, containerd};
use tokio::sync::watch;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use super::sightings::Sightings;

/// Interval between checks, the same as between sweeps of the host.
const PERIOD: Duration = Duration::from_secs(60);

/// Periodically finds leftover shims and kills them. The app runs it if the runtime is containerd.
pub(crate) struct LeftoverShims {
    /// Client of containerd.
    pub client: CriClient,
    /// containerd's socket: shims of another containerd do not count.
    pub socket: PathBuf,
    /// Mount point of procfs, `/proc`.
    pub proc: PathBuf,
    /// The host's mounts.
    pub mounts: Arc<dyn Mounts>,
    /// Where a sentence about shims that cannot be killed is published; `None` if there are none.
    pub problem: watch::Sender<Option<String>>,
}

impl LeftoverShims {
    /// Runs until cancelled.
    pub(crate) async fn run(self, cancel: CancellationToken) {
        let mut sightings = Sightings::default();
        // Cleanup of these has begun: the process may have exited while mounts remain.
        let mut unfinished = Vec::new();
        loop {
            let check = async {
                self.check(&mut sightings, &mut unfinished).await;
                sleep(PERIOD).await;
            };
            tokio::select! {
                // Cancel-safe: waits for a token.
                () = cancel.cancelled() => return,
                // Cancel-safe: the next daemon finds what is left.
                () = check => {}
            }
        }
    }

    async fn check(&self, sightings: &mut Sightings, unfinished: &mut Vec<(Shim, Stored)>) {
        let unlisted = match self.unlisted().await {
            Ok(unlisted) => unlisted,
            // Unknown now; the next check is soon enough.
            Err(error) => {
                tracing::debug!(error = error_chain(&*error), "cannot look for leftover shims");
                return;
            }
        };
        let mut failed = Vec::new();
        for left in sightings.left_over(unlisted, Instant::now()) {
            if !unfinished.contains(&left) {
                unfinished.push(left);
            }
        }
        for (shim, stored) in std::mem::take(unfinished) {
            if let Err(error) = self.kill(&shim, stored).await {
                let error = error_chain(&*error);
                tracing::warn!(shim = shim.id, pid = shim.pid, error, "cannot kill a leftover shim");
                failed.push(format!("process {} of the sandbox {}: {error}", shim.pid, shim.id));
                unfinished.push((shim, stored));
            }
        }
        let problem = (!failed.is_empty())
            .then(|| format!("leftover shims cannot be killed; hostlet tries again ({})", failed.join("; ")));
        self.problem.send_if_modified(|known| {
            let is_news = *known != problem;
            *known = problem;
            is_news
        });
    }

    async fn kill(
        &self,
        shim: &Shim,
        stored: Stored,
    ) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
        end_shim(shim, &self.mounts).await?;
        if stored == Stored::OfCri {
            self.client.forget_stored(&shim.id).await?;
        }
        tracing::warn!(
            shim = shim.id,
            pid = shim.pid,
            "killed a shim left over from a killed containerd or hostlet"
        );
        Ok(())
    }

    /// Shims of our containerd without a sandbox or container of the CRI. Processes are listed before the CRI's objects, so that
    /// one created meanwhile is not missing.
    async fn unlisted(&self) -> Result<Vec<(Shim, Stored)>, Box<dyn std::error::Error + Send + Sync>> {
        let (proc, socket) = (self.proc.clone(), self.socket.clone());
        let ours = file_work(move || ours(&proc, &socket)).await??;
        if ours.is_empty() {
            return Ok(Vec::new());
        }
        let listed: HashSet<String> = self.client.listed_ids().await?;
        let mut unlisted = Vec::new();
        for shim in ours.into_iter().filter(|shim| !listed.contains(&shim.id)) {
            let stored: Result<Stored, CriError> = self.client.stored(&shim.id).await;
            unlisted.push((shim, stored?));
        }
        Ok(unlisted)
    }
}

fn ours(proc: &Path, socket: &Path) -> Result<Vec<Shim>, SysError> {
    // `/var/run` is `/run` on most hosts.
    let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let socket = real(socket);
    let mut shims = shims(proc)?;
    shims.retain(|shim| shim.namespace == containerd::NAMESPACE && real(&shim.address) == socket);
    Ok(shims)
}
