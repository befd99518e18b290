//! Creates the sandbox that a pod's containers run in. Does not decide when one is needed.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::time::Duration;

use hostlet_base::{PodEvent, SandboxId, error_chain};
use hostlet_host::cgroup::CgroupError;
use hostlet_host::file_work;
use hostlet_observe::status::Activity;
use hostlet_observe::status::timeline::TimelineStep;
use hostlet_pod::AdmittedPod;
use hostlet_pod::resources::tiny_memory_limits;
use hostlet_runtime::cri::wire::PodSandboxConfig;
use hostlet_runtime::cri::{CriError, SandboxStatus};
use tokio::time::Instant;

use super::context::WorkerContext;
use super::handler::handler_of;
use super::reporter::Reporter;
use super::start_record::StartRecord;
use super::{EnvNeeds, Retry};
use crate::cri_config::{
    self, ConfigError, DnsWarning, FilesError, IdRange, UserNamespaceError, isolate_users,
    join_sandbox_groups, pod_dns, remove_quota,
};

/// How long a pod waits for the runtime's first status before its absence counts as a failure.
const FIRST_STATUS: Duration = Duration::from_secs(1);

/// A sandbox in which containers can be created.
pub(super) struct PodSandbox {
    pub(super) id: SandboxId,
    pub(super) config: PodSandboxConfig,
    pub(super) ips: Vec<IpAddr>,
}

/// Creates the sandboxes of one pod.
pub(super) struct Sandboxes<'a> {
    pub(super) context: &'a WorkerContext,
    pub(super) pod: &'a AdmittedPod,
    pub(super) reporter: &'a mut Reporter,
    pub(super) starts: &'a mut StartRecord,
    pub(super) env: &'a mut EnvNeeds,
}

/// Why the sandbox's configuration could not be built.
#[derive(Debug, thiserror::Error)]
enum SandboxConfigError {
    /// The host's `resolv.conf` could not be read.
    #[error(transparent)]
    Files(#[from] FilesError),
    /// The path of the pod's cgroup could not be determined.
    #[error(transparent)]
    Cgroup(#[from] CgroupError),
    /// The pod cannot be translated to a CRI configuration.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The pod gets no user namespace.
    #[error(transparent)]
    Users(#[from] UserNamespaceError),
}

/// The runtime's error, with the pod's memory limits if they are absurd: the kernel's kill reads as anything else.
pub(super) fn with_memory_limits(pod: &AdmittedPod, error: &CriError) -> String {
    match tiny_memory_limits(pod).filter(|_| matches!(error, CriError::Failed { .. })) {
        Some(limits) => format!("{error} ({limits})"),
        None => error.to_string(),
    }
}

impl Sandboxes<'_> {
    /// Creates a sandbox and reads its status with its addresses. `groups` are those of the pod's volumes.
    pub(super) async fn create(
        &mut self,
        attempt: u32,
        groups: &BTreeSet<i64>,
    ) -> Result<(PodSandbox, SandboxStatus), Retry> {
        self.check_network().await?;
        let config = self.config(attempt, groups).await?;
        let handler = self.handler().await?;
        match self.run(config, &handler).await {
            Ok(sandbox) => {
                self.reporter.recovered("");
                Ok(sandbox)
            }
            Err(error) => {
                let cause = with_memory_limits(self.pod, &error);
                let text = format!("Failed to create pod sandbox: {cause}");
                Err(self.failed("FailedCreatePodSandBox", text, Retry::after(&error)))
            }
        }
    }

    /// The configuration of the sandbox of this attempt. Reports why there is none, and what of the pod's DNS settings it leaves
    /// out.
    pub(super) async fn config(
        &mut self,
        attempt: u32,
        groups: &BTreeSet<i64>,
    ) -> Result<PodSandboxConfig, Retry> {
        match self.build_config(attempt).await {
            Ok((mut config, warnings)) => {
                // Upstream adds them to no other sandbox.
                if self.pod.spec().security_context.is_some() {
                    join_sandbox_groups(&mut config, groups);
                }
                for warning in warnings {
                    self.reporter.event(None, PodEvent::warning(warning.reason, warning.message));
                }
                Ok(config)
            }
            Err(error) => {
                let text = format!("Failed to create pod sandbox: {}", error_chain(&error));
                Err(self.failed("FailedCreatePodSandBox", text, Retry::BackOff))
            }
        }
    }

    /// The configuration of the sandbox of this attempt, before it is needed; `None` if there is none, which is reported when it
    /// is.
    pub(super) async fn early_config(&self, attempt: u32) -> Option<PodSandboxConfig> {
        self.build_config(attempt).await.ok().map(|(config, _)| config)
    }

    async fn build_config(
        &self,
        attempt: u32,
    ) -> Result<(PodSandboxConfig, Vec<DnsWarning>), SandboxConfigError> {
        let (pod, host) = (self.pod, &self.context.host);
        let (dns, warnings) = pod_dns(pod, &host.settings).await?;
        let parent = match &host.cgroups {
            Some(cgroups) => cgroups.parent(&pod.reference.uid, pod.qos)?,
            None => String::new(),
        };
        let mut config = cri_config::sandbox_config(pod, attempt, &parent, dns, &host.settings)?;
        if self.context.grants.is_cpu_unlimited(pod.object()) {
            remove_quota(&mut config);
        }
        if pod.spec().host_users == Some(false) {
            isolate_users(&mut config, self.users().await?);
        }
        Ok((config, warnings))
    }

    /// The ID range of the pod's user namespace.
    async fn users(&self) -> Result<IdRange, UserNamespaceError> {
        let handler = handler_of(self.context, self.pod);
        if !handler.user_namespaces {
            return Err(UserNamespaceError::Unsupported(handler.name));
        }
        self.context.host.user_namespaces.of_pod(&self.pod.reference.uid).await
    }

    /// The runtime's handler for the pod: that of its class, or the default one, which has no name.
    async fn handler(&mut self) -> Result<String, Retry> {
        let class = self.pod.spec().runtime_class_name.as_deref().unwrap_or_default();
        if class.is_empty() {
            return Ok(String::new());
        }
        let classes = &self.context.runtime.classes;
        match classes.handler(class).await {
            Ok(handler) => Ok(handler),
            Err(error) => {
                self.env.lacks_class(classes, class);
                let text = format!("Failed to create pod sandbox: {error}");
                Err(self.failed("FailedCreatePodSandBox", text, Retry::BackOff))
            }
        }
    }

    async fn check_network(&mut self) -> Result<(), Retry> {
        if self.pod.host_network {
            return Ok(());
        }
        // At boot the first status arrives soon. One that is later than this counts at the next retry.
        let mut first = self.context.runtime.status.clone();
        let _ = tokio::time::timeout(FIRST_STATUS, first.wait_for(Option::is_some)).await;
        let problem = match &*self.context.runtime.status.borrow() {
            Some(status) if status.network.status => return Ok(()),
            Some(status) => format!(
                "container runtime network not ready: NetworkReady=false reason:{} message:{}",
                status.network.reason, status.network.message
            ),
            None => "container runtime status check may not have completed yet".to_owned(),
        };
        let text = format!("network is not ready: {problem}");
        Err(self.failed("NetworkNotReady", text, Retry::Soon))
    }

    async fn run(
        &mut self,
        config: PodSandboxConfig,
        handler: &str,
    ) -> Result<(PodSandbox, SandboxStatus), CriError> {
        let pod = &self.pod.reference;
        let (logs, owner) = (self.context.host.logs.clone(), pod.clone());
        // The runtime creates a missing directory too; a failure here shows when the first log is opened.
        if let Ok(Err(error)) = file_work(move || logs.create_pod_dir(&owner)).await {
            tracing::warn!(%pod, uid = %pod.uid, error = error_chain(&error), "cannot create the pod's log directory");
        }
        self.reporter.begin(Activity::QueuedStart);
        let permit = self.context.runtime.starts.enter(self.starts.priority(self.pod)).await;
        self.reporter.begin(Activity::MakingSandbox);
        let (runtime, request) = (self.context.runtime.service.clone(), config.clone());
        let (handler, metrics) = (handler.to_owned(), self.context.metrics.starts.clone());
        let call = async move {
            let began = Instant::now();
            let created = runtime.run_sandbox(request, &handler).await;
            metrics.sandbox(&handler, began.elapsed(), created.is_err());
            created
        };
        let created = self.starts.in_flight.keep(permit.during(call)).await;
        let id = created.inspect_err(|error| self.starts.failed(error))?;
        self.starts.succeeded();
        // Only a sandbox that was created: after a reboot, the network may be unable to add pods for minutes, and upstream tries again
        // at the ordinary pace.
        if config.metadata.as_ref().is_some_and(|metadata| metadata.attempt > 0) {
            self.starts.sandbox_replaced(self.reporter.steady());
        }
        let status = self.context.runtime.service.sandbox_status(&id).await?;
        let ips: Vec<String> = status.ips.iter().map(IpAddr::to_string).collect();
        self.reporter.mark(TimelineStep::Network, ips.join(", "));
        tracing::debug!(%pod, uid = %pod.uid, sandbox = %id, "sandbox made");
        Ok((PodSandbox { id, config, ips: status.ips.clone() }, status))
    }

    /// Reports why there is no sandbox. Returns when to retry.
    fn failed(&mut self, reason: &'static str, message: String, retry: Retry) -> Retry {
        self.reporter.event(None, PodEvent::warning(reason, message));
        retry
    }
}
