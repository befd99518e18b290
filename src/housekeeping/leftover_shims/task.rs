//! The task that looks for leftover shims and ends them.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use super::sightings::Sightings;
use crate::cri::{CRI_NAMESPACE, CriClient, CriError, Stored};
use crate::sys::{Mounts, Shim, SysError, end_shim, file_work, shims};
use crate::types::error_chain;

/// Between two looks, as between two sweeps of the host.
const PERIOD: Duration = Duration::from_secs(60);

/// Looks for shims that containerd forgot, again and again, and ends them. To be run by the app, where the runtime is containerd.
pub struct LeftoverShims {
    /// containerd.
    pub client: CriClient,
    /// Its socket: shims that were started for another one are not looked at.
    pub socket: PathBuf,
    /// Where processes are to be seen, `/proc`.
    pub proc: PathBuf,
    /// The host's mounts.
    pub mounts: Arc<dyn Mounts>,
    /// Which of them cannot be ended, and why, in a sentence; none if there are none.
    pub told: watch::Sender<Option<String>>,
}

impl LeftoverShims {
    /// Runs until cancelled.
    pub async fn run(self, cancel: CancellationToken) {
        let mut sightings = Sightings::default();
        // Those whose end was begun: their process may be gone, and what it held may not.
        let mut unended = Vec::new();
        loop {
            let look = async {
                self.look(&mut sightings, &mut unended).await;
                sleep(PERIOD).await;
            };
            tokio::select! {
                // Cancel-safe: waiting for a token takes nothing.
                () = cancel.cancelled() => return,
                // Cancel-safe: what a look did not get to is found by the next daemon.
                () = look => {}
            }
        }
    }

    async fn look(&self, sightings: &mut Sightings, unended: &mut Vec<(Shim, Stored)>) {
        let unlisted = match self.unlisted().await {
            Ok(unlisted) => unlisted,
            // Nothing is known now; the next look is soon enough.
            Err(error) => {
                tracing::debug!(error = error_chain(&*error), "cannot look for leftover shims");
                return;
            }
        };
        let mut failed = Vec::new();
        for left in sightings.left_over(unlisted, Instant::now()) {
            if !unended.contains(&left) {
                unended.push(left);
            }
        }
        for (shim, stored) in std::mem::take(unended) {
            if let Err(error) = self.end(&shim, stored).await {
                let error = error_chain(&*error);
                tracing::warn!(
                    shim = shim.id,
                    pid = shim.pid,
                    error,
                    "cannot end a shim that containerd forgot"
                );
                failed.push(format!("process {} of the sandbox {}: {error}", shim.pid, shim.id));
                unended.push((shim, stored));
            }
        }
        let told = (!failed.is_empty()).then(|| {
            format!(
                "containerd forgot shims, which hostlet cannot end and tries again ({})",
                failed.join("; ")
            )
        });
        self.told.send_if_modified(|known| {
            let is_news = *known != told;
            *known = told;
            is_news
        });
    }

    async fn end(&self, shim: &Shim, stored: Stored) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
        end_shim(shim, &self.mounts).await?;
        if stored == Stored::OfCri {
            self.client.forget_stored(&shim.id).await?;
        }
        tracing::warn!(
            shim = shim.id,
            pid = shim.pid,
            "ended a shim that containerd forgot when it or hostlet was killed"
        );
        Ok(())
    }

    /// Our containerd's shims that no sandbox and no container of the CRI stands behind. What the CRI lists is asked for
    /// later than what runs, so that none is missing that was made meanwhile.
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
    shims.retain(|shim| shim.namespace == CRI_NAMESPACE && real(&shim.address) == socket);
    Ok(shims)
}
