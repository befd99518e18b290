//! Enforces the resources that were allocated to a running pod, in the order of its plan. Stops at the first failure: the next
//! plan continues from what was enforced.

use hostlet_base::{SandboxId, error_chain};
use hostlet_host::cgroup::{CgroupError, PodResources};
use hostlet_host::file_work;
use hostlet_pod::AdmittedPod;
use hostlet_pod::resources::{Enforced, pod_resources};
use hostlet_runtime::cri::{ContainerStats, CriError};
use tokio::task::JoinError;

use super::actuated::ActuatedRecord;
use super::context::WorkerContext;
use super::plan::{LowerLimit, Resize, ResizeStep};
use crate::cri_config::{resized_resources, resized_sandbox};

/// Why a resize failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum ResizeError {
    /// It is not known how much memory the pod uses.
    #[error("unable to read memory usage for pod {0:?}")]
    Usage(String),
    /// More memory is in use than the new limits permit.
    #[error("cannot decrease memory limits: {0}")]
    InUse(String),
    /// The runtime does not permit the pod's new resources.
    #[error("failed to notify runtime for UpdatePodSandboxResources; resize rejected")]
    Refused(#[source] CriError),
    /// The pod's cgroup could not be changed.
    #[error("failed to set the pod's cgroup")]
    Cgroup(#[source] CgroupError),
    /// The work on the pod's cgroup was cut short.
    #[error("failed to set the pod's cgroup")]
    Work(#[from] JoinError),
    /// The runtime did not update a container.
    #[error(transparent)]
    Runtime(#[from] CriError),
}

/// The settings of the pod's cgroup for these resources of the whole pod.
pub(super) fn cgroup_settings(context: &WorkerContext, pod: &AdmittedPod, whole: &Enforced) -> PodResources {
    let settings = &context.host.settings;
    let resources = pod_resources(pod, whole, settings.cpu_cfs_quota_period, settings.memory_qos.as_ref());
    let quota = resources.cpu_quota.filter(|_| !context.grants.is_cpu_unlimited(pod.object()));
    PodResources { cpu_quota: quota, ..resources }
}

/// Resizes one pod.
pub(super) struct PodResize<'a> {
    pub(super) context: &'a WorkerContext,
    pub(super) pod: &'a AdmittedPod,
    pub(super) sandbox: &'a SandboxId,
    pub(super) actuated: &'a mut ActuatedRecord,
}

impl PodResize<'_> {
    /// Performs all steps.
    pub(super) async fn run(&mut self, resize: &Resize) -> Result<(), ResizeError> {
        self.check_usage(&resize.lower).await?;
        for step in &resize.steps {
            match step {
                ResizeStep::Pod(whole) => {
                    // A runtime that refuses is asked before anything changes.
                    self.announce(whole).await?;
                    if let Err(error) = self.set_cgroup(whole).await {
                        let before = self.actuated.get().pod.unwrap_or(*whole);
                        if let Err(error) = self.announce(&before).await {
                            let pod = &self.pod.reference;
                            tracing::warn!(%pod, uid = %pod.uid, error = error_chain(&error), "cannot revert a resize that the runtime was notified of");
                        }
                        return Err(error);
                    }
                    self.actuated.set_pod(*whole);
                }
                ResizeStep::Container { id, container, to } => {
                    let Some(spec) = self.pod.container(container) else { continue };
                    let cpus = self.context.grants.numa().cpus(self.pod.object(), &container.name);
                    let settings = &self.context.host.settings;
                    let resources = resized_resources(self.pod, spec.spec, to, cpus, settings);
                    self.context.runtime.service.update_container(id, resources).await?;
                    self.actuated.set_container(&container.name, *to);
                }
            }
        }
        Ok(())
    }

    /// Tells the runtime the settings of the pod's cgroup, if it has the call.
    async fn announce(&self, whole: &Enforced) -> Result<(), ResizeError> {
        let resources = cgroup_settings(self.context, self.pod, whole);
        let (left, overhead) = resized_sandbox(self.pod, &resources, &self.context.host.settings);
        match self.context.runtime.service.update_sandbox(self.sandbox, left, overhead).await {
            Ok(()) | Err(CriError::Unimplemented { .. }) => Ok(()),
            Err(error) => Err(ResizeError::Refused(error)),
        }
    }

    async fn set_cgroup(&self, whole: &Enforced) -> Result<(), ResizeError> {
        let resources = cgroup_settings(self.context, self.pod, whole);
        let Some(cgroups) = self.context.host.cgroups.clone() else { return Ok(()) };
        let (uid, qos) = (self.pod.reference.uid.clone(), self.pod.qos);
        let set = file_work(move || cgroups.ensure_pod(&uid, qos, &resources));
        set.await?.map_err(ResizeError::Cgroup)
    }

    /// A limit below what is in use would make the kernel kill processes.
    async fn check_usage(&self, lower: &[LowerLimit]) -> Result<(), ResizeError> {
        if lower.is_empty() {
            return Ok(());
        }
        let pod = &self.pod.reference;
        let unknown = |error: &dyn std::fmt::Display| {
            tracing::warn!(%pod, uid = %pod.uid, %error, "cannot read the memory that the pod uses");
            ResizeError::Usage(pod.described())
        };
        let (uid, qos) = (pod.uid.clone(), self.pod.qos);
        let of_pod = match self.context.host.cgroups.clone() {
            Some(cgroups) => file_work(move || cgroups.pod_memory(&uid, qos)).await?,
            None => Ok(None),
        };
        let of_pod = of_pod.map_err(|error| unknown(&error))?;
        let stats = self.context.runtime.service.container_stats(Some(&pod.uid)).await;
        let stats = stats.map_err(|error| unknown(&error))?;
        let problems: Vec<String> = lower.iter().filter_map(|limit| too_low(limit, of_pod, &stats)).collect();
        match problems.as_slice() {
            [] => Ok(()),
            [one] => Err(ResizeError::InUse(one.clone())),
            all => Err(ResizeError::InUse(format!("[{}]", all.join(", ")))),
        }
    }
}

/// Why a limit cannot be set now, in upstream's words.
fn too_low(limit: &LowerLimit, of_pod: Option<u64>, stats: &[ContainerStats]) -> Option<String> {
    let LowerLimit { container, bytes } = limit;
    let exceeds = |used: u64| i128::from(used) >= i128::from(*bytes);
    match container {
        None => {
            let used = of_pod.filter(|used| exceeds(*used))?;
            Some(format!("attempting to set pod memory limit ({bytes}) below current usage ({used})"))
        }
        Some(id) => {
            let stats = stats.iter().find(|stats| stats.id == *id)?;
            let name = &*stats.name;
            let Some(used) = stats.memory else {
                return Some(format!("missing container {name:?} memory usage"));
            };
            exceeds(used).then(|| {
                format!(
                    "attempting to set container {name:?} memory limit ({bytes}) below current usage ({used})"
                )
            })
        }
    }
}
