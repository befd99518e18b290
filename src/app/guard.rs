//! The guard of a first start: nothing that changes anything begins on a runtime that hostlet has not run pods on, before it is
//! known that the runtime is nobody else's.
//!
//! A refused daemon exits instead of waiting: for the service manager, its ordering and monitors, a daemon that runs counts as
//! started. `hostlet doctor` explains the refusal without the daemon.

use std::collections::HashSet;
use std::path::PathBuf;

use jiff::Timestamp;
use tokio_util::sync::CancellationToken;

use super::paths::PROC;
use super::tasks::Tasks;
use crate::config::Config;
use crate::cri::{FIRST_ANSWER_RETRY, RuntimeService};
use crate::ownership::{
    History, KnownClaim, Refusal, first_start_refusal, history, kubelet_listener, other_kubelets,
    runtime_pods,
};
use crate::store::{Store, Table};
use crate::sys::{HostDirs, SysError, file_work};
use crate::types::{PodUid, error_chain};

/// The guard of this start.
pub(super) struct Guard {
    claim: KnownClaim,
    claim_file: PathBuf,
    root_dir: PathBuf,
    socket: PathBuf,
    /// The pods in the store.
    recorded: HashSet<PodUid>,
    is_first: bool,
}

impl Guard {
    /// Looks at what earlier starts left. A first start without an explicit permission holds `tasks` back.
    pub(super) fn new(config: &Config, dirs: &HostDirs, store: &Store, tasks: &mut Tasks) -> Self {
        let claim = KnownClaim::read(&dirs.claim());
        let recorded = store.keys(Table::AdmittedPods).into_iter().map(Into::into).collect();
        let socket = config.runtime.runtime_socket.clone();
        let is_first = match history(&claim, &socket, &recorded) {
            History::FirstStart => !config.adopt_foreign_pods,
            History::RanBefore => false,
        };
        if is_first {
            tracing::info!(runtime = %socket.display(), "first start on this runtime; looking for pods of others before anything changes");
            tasks.hold();
        }
        Self { claim, claim_file: dirs.claim(), root_dir: dirs.root.clone(), socket, recorded, is_first }
    }

    /// Decides about the start, once the runtime responds, and lets the tasks begin. `None` if the daemon is stopped first.
    pub(super) async fn pass(
        self,
        runtime: &dyn RuntimeService,
        tasks: &mut Tasks,
        cancel: &CancellationToken,
    ) -> Option<Result<(), Refusal>> {
        if self.is_first {
            let refusal = tokio::select! {
                // Cancel-safe: waits for a token.
                () = cancel.cancelled() => return None,
                // Cancel-safe: it only reads.
                refusal = self.refusal(runtime) => refusal,
            };
            if let Some(refusal) = refusal {
                return Some(Err(refusal));
            }
        }
        self.claim().await;
        tasks.release();
        Some(Ok(()))
    }

    async fn refusal(&self, runtime: &dyn RuntimeService) -> Option<Refusal> {
        let mut logged = None;
        let pods = loop {
            let error = match runtime_pods(runtime).await {
                Ok(pods) => break pods,
                Err(error) => error_chain(&error),
            };
            if logged.as_ref() != Some(&error) {
                tracing::warn!(error, "cannot list the pods of the container runtime; trying again");
                logged = Some(error);
            }
            tokio::time::sleep(FIRST_ANSWER_RETRY).await;
        };
        let (socket, root) = (self.socket.clone(), self.root_dir.clone());
        let looked = file_work(move || {
            let mut found = other_kubelets(PROC.as_ref(), &socket)?;
            found.extend(kubelet_listener(&root));
            Ok(found)
        });
        let kubelets = looked.await.unwrap_or_else(|source| Err(SysError::Step { source }));
        let kubelets = kubelets.unwrap_or_else(|error| {
            tracing::warn!(error = error_chain(&error), "cannot look for other kubelets");
            Vec::new()
        });
        first_start_refusal(&self.socket, pods, &self.recorded, kubelets)
    }

    /// Records that hostlet runs pods here, before it starts the first. A failure costs no pod: the store is a record, too.
    async fn claim(&self) {
        let Some(claim) = self.claim.with(&self.socket, Timestamp::now()) else { return };
        let file = self.claim_file.clone();
        let written = file_work(move || claim.write(&file)).await;
        if let Err(error) = written.unwrap_or_else(|source| Err(SysError::Step { source })) {
            tracing::error!(
                error = error_chain(&error),
                "cannot record that hostlet runs on this host; if the store is lost too, its next start will be refused \
                 (adoptForeignPods)"
            );
        }
    }
}
