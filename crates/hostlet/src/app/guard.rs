//! The guard of a first start: nothing that changes anything begins, and no port is opened, before it is known that neither the
//! runtime nor the host's directories and cgroups have pods of somebody else.
//!
//! A refused daemon exits instead of waiting: for the service manager, its ordering and monitors, a daemon that runs counts as
//! started. `hostlet doctor` explains the rejection without the daemon. What cannot be seen is looked at again: it never counts as
//! nothing.

use std::collections::{BTreeSet, HashSet};
use std::error::Error;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use hostlet_base::{PodRef, PodUid, error_chain};
use hostlet_cluster::node::FormerDevices;
use hostlet_config::Config;
use hostlet_devices::has_checkpoint;
use hostlet_engine::admission::{self, NodeView};
use hostlet_engine::ownership::{
    Foreign, History, KnownClaim, StartRejection, Unrunnable, first_start_rejection, history,
    kubelet_listener, other_kubelets, remains_of_others, running_pods, runtime_pods,
};
use hostlet_engine::source::SourceState;
use hostlet_host::cgroup::Cgroups;
use hostlet_host::{HostDirs, SysError, file_work};
use hostlet_observe::log::LogLayout;
use hostlet_pod::ApiState;
use hostlet_runtime::cri::{FIRST_ANSWER_RETRY, RuntimeService};
use hostlet_serve::supervisor::StartDecision;
use hostlet_telemetry::Changed;
use hostlet_volume::unknown_plugins;
use jiff::Timestamp;
use tokio::sync::watch;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::parts::Records;
use super::paths::{CONTAINER_LOGS, DEVICE_PLUGINS, PROC};
use super::tasks::Tasks;

/// How long a takeover waits for the API server to say what the running pods use.
const SOURCES_PATIENCE: Duration = Duration::from_secs(60);

/// How long the service manager waits for a decision before the daemon counts as ready. A takeover may wait for the API server, and
/// whoever permitted it is to learn that it was refused; a first start waits for nothing but the runtime.
const FIRST_PATIENCE: Duration = Duration::from_secs(10);
const TAKEOVER_PATIENCE: Duration = Duration::from_secs(90);

type AnyError = Box<dyn Error + Send + Sync>;

/// Whether hostlet may begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Start {
    /// It ran here before.
    Again,
    /// A first start, which needs a host without pods of others.
    First,
    /// A first start that takes over the pods that run.
    TakesOver,
}

/// What the sources of pods say, to see what running pods use.
pub(super) struct GuardSources<'a> {
    pub(super) manifests: watch::Receiver<SourceState>,
    pub(super) api: watch::Receiver<ApiState>,
    pub(super) node: &'a NodeView,
    pub(super) allowed_unsafe_sysctls: &'a [String],
}

/// The guard of this start.
pub(super) struct Guard {
    claim: KnownClaim,
    claim_file: PathBuf,
    root_dir: PathBuf,
    logs: LogLayout,
    socket: PathBuf,
    /// hostlet's own pods.
    recorded: HashSet<PodUid>,
    start: Start,
    /// Whether pods may run.
    may_run: watch::Sender<bool>,
    former_devices: FormerDevices,
}

impl Guard {
    /// Looks at what earlier starts left. A first start holds `tasks` back.
    pub(super) fn new(config: &Config, dirs: &HostDirs, records: &Records, tasks: &mut Tasks) -> Self {
        let claim = KnownClaim::read(&dirs.claim());
        let recorded = records.own.all().into_iter().collect();
        let socket = config.runtime.runtime_socket.clone();
        let start = match history(&claim, &socket, &recorded) {
            History::FirstStart if config.adopt_foreign_pods => Start::TakesOver,
            History::FirstStart => Start::First,
            History::RanBefore => Start::Again,
        };
        match start {
            Start::Again => {}
            Start::First | Start::TakesOver => {
                tracing::info!(runtime = %socket.display(), "first start on this runtime; looking for pods of others before anything changes");
                tasks.hold();
            }
        }
        let logs =
            LogLayout { pod_logs_dir: config.pods.logs_dir.clone(), containers_dir: CONTAINER_LOGS.into() };
        let (claim_file, root_dir) = (dirs.claim(), dirs.root.clone());
        let former_devices = FormerDevices::new(records.store.clone());
        let may_run = watch::Sender::new(start == Start::Again);
        Self { claim, claim_file, root_dir, logs, socket, recorded, start, may_run, former_devices }
    }

    /// Whether this start waits for its decision.
    pub(super) fn is_first(&self) -> bool {
        self.start != Start::Again
    }

    /// What the service manager waits for.
    pub(super) fn decision(&self) -> StartDecision {
        let patience = match self.start {
            Start::Again | Start::First => FIRST_PATIENCE,
            Start::TakesOver => TAKEOVER_PATIENCE,
        };
        StartDecision { may_run: self.may_run.subscribe(), patience }
    }

    /// Decides about the start, once the runtime responds. `None` if the daemon is stopped first.
    pub(super) async fn decide(
        &self,
        runtime: &dyn RuntimeService,
        cgroups: &Arc<Cgroups>,
        sources: GuardSources<'_>,
        cancel: &CancellationToken,
    ) -> Option<Result<(), StartRejection>> {
        let decided = async {
            match self.start {
                Start::Again => None,
                Start::First => {
                    let foreign = until_seen(async || self.foreign(runtime, cgroups).await).await;
                    first_start_rejection(&self.socket, foreign)
                }
                Start::TakesOver => self.takeover_refusal(runtime, sources).await,
            }
        };
        tokio::select! {
            // Cancel-safe: waits for a token.
            () = cancel.cancelled() => None,
            // Cancel-safe: it only reads.
            rejection = decided => Some(rejection.map_or(Ok(()), Err)),
        }
    }

    /// What others have here.
    async fn foreign(
        &self,
        runtime: &dyn RuntimeService,
        cgroups: &Arc<Cgroups>,
    ) -> Result<Foreign, AnyError> {
        let pods = runtime_pods(runtime).await?;
        let (socket, root, logs, cgroups) =
            (self.socket.clone(), self.root_dir.clone(), self.logs.clone(), cgroups.clone());
        let looked = file_work(move || -> Result<_, AnyError> {
            let mut kubelets = other_kubelets(PROC.as_ref(), &socket)?;
            kubelets.extend(kubelet_listener(&root));
            Ok((kubelets, remains_of_others(&root, &logs, Some(&cgroups), |_| false)?))
        });
        let (kubelets, remains) = looked.await??;
        Ok(Foreign::new(kubelets, pods, remains, &self.recorded))
    }

    /// Why the pods that run cannot be taken over.
    async fn takeover_refusal(
        &self,
        runtime: &dyn RuntimeService,
        mut sources: GuardSources<'_>,
    ) -> Option<StartRejection> {
        let (running, mut unrunnable) = until_seen(async || self.running(runtime).await).await;
        if running.is_empty() {
            return None;
        }
        let known = timeout(SOURCES_PATIENCE, async {
            // An error means that the source has ended with the daemon.
            let _ = sources.manifests.wait_for(|manifests| manifests.ready).await;
            let _ = sources.api.wait_for(|api| api.ready).await;
        });
        if known.await.is_err() {
            let why = sources.api.borrow().problem.clone();
            let why = why.unwrap_or_else(|| "the manifests or the API server could not be read".to_owned());
            return Some(StartRejection::Unseen { pods: running.len(), why });
        }
        let has_devices = has_checkpoint(&self.root_dir.join(DEVICE_PLUGINS));
        let uids = running.iter().map(|pod| pod.uid.clone()).collect();
        let (manifests, api) = (sources.manifests.borrow(), sources.api.borrow());
        let named: HashSet<PodUid> = unrunnable.iter().map(|one| one.pod.uid.clone()).collect();
        let others = admission::unrunnable(
            &manifests,
            &api,
            &uids,
            sources.allowed_unsafe_sysctls,
            sources.node,
            has_devices,
        );
        unrunnable.extend(others.into_iter().filter(|one| !named.contains(&one.pod.uid)));
        (!unrunnable.is_empty()).then_some(StartRejection::Unrunnable { pods: unrunnable })
    }

    /// The running pods that hostlet did not record, and those of them that have volumes which nobody would take down.
    async fn running(
        &self,
        runtime: &dyn RuntimeService,
    ) -> Result<(BTreeSet<PodRef>, Vec<Unrunnable>), AnyError> {
        let mut pods = running_pods(runtime).await?;
        pods.retain(|pod| !self.recorded.contains(&pod.uid));
        let (root, looked_at) = (self.root_dir.clone(), pods.clone());
        let looked = file_work(move || -> Result<_, AnyError> {
            let mut found = Vec::new();
            for pod in looked_at {
                let plugins = unknown_plugins(&root, &pod.uid)?;
                if !plugins.is_empty() {
                    found.push(Unrunnable::of_plugins(pod, &plugins));
                }
            }
            Ok(found)
        });
        Ok((pods, looked.await??))
    }

    /// Records that hostlet runs pods here, before it starts the first, and lets the tasks begin. A failure costs no pod: the store
    /// is a record, too. With a record of devices, those that the Node states are this host's.
    pub(super) async fn claim(self, has_devices: bool, tasks: &mut Tasks) {
        if self.is_first() && !has_devices {
            self.former_devices.expect();
        }
        if let Some(claim) = self.claim.with(&self.socket, Timestamp::now()) {
            let file = self.claim_file;
            let written = file_work(move || claim.write(&file)).await;
            if let Err(error) = written.unwrap_or_else(|source| Err(SysError::Step { source })) {
                tracing::error!(
                    error = error_chain(&error),
                    "cannot record that hostlet runs on this host; if the store is lost too, its next start will be refused \
                     (adoptForeignPods)"
                );
            }
        }
        tasks.release();
        self.may_run.send_replace(true);
    }
}

/// Looks until something can be seen: what cannot be seen must not count as nothing.
async fn until_seen<T>(look: impl AsyncFn() -> Result<T, AnyError>) -> T {
    let mut failures = Changed::new();
    loop {
        let error = match look().await {
            Ok(seen) => return seen,
            Err(error) => error_chain(&*error),
        };
        if failures.see(error.clone()) {
            tracing::warn!(error, "cannot see whether this host has pods of others; trying again");
        }
        sleep(FIRST_ANSWER_RETRY).await;
    }
}
