//! A pod's volumes as its worker sees them: asked for in each sync, told of when they fail.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use tokio::time::Instant;

use super::syncer::WorkerContext;
use super::{Memory, Retry};
use crate::pod::resources::pod_resources;
use crate::status::Activity;
use crate::types::{PodEvent, PodRef, error_chain};
use crate::volume::{PodVolumes, VolumeOwner};

/// Upstream's reason for whatever is wrong with a volume.
const FAILED_MOUNT: &str = "FailedMount";

impl WorkerContext {
    /// Has the pod's volumes set up, or brought up to date, and tells what is wrong with them.
    pub(super) async fn set_up_volumes(
        &self,
        pod: &Arc<Pod>,
        reference: &PodRef,
        memory: &mut Memory,
    ) -> PodVolumes {
        let limit = pod_resources(pod, self.host.cpu_cfs_quota_period).memory_limit;
        let memory_limit = limit.and_then(|bytes| u64::try_from(bytes).ok());
        let volumes = match self.volumes.set_up(VolumeOwner { pod: pod.clone(), memory_limit }).await {
            Ok(volumes) => volumes,
            Err(error) => {
                let text = format!("Unable to attach or mount volumes: {}", error_chain(&error));
                self.event(reference, None, PodEvent::warning(FAILED_MOUNT, text), memory);
                return PodVolumes::default();
            }
        };
        let now = Instant::now();
        let known = std::mem::take(&mut memory.volume_problems);
        for problem in &volumes.problems {
            let event = PodEvent::warning(FAILED_MOUNT, problem.to_string());
            let told = known.iter().find(|(known, _)| known == problem).map(|(_, told)| *told);
            let at = match told {
                None => {
                    self.announce(reference, None, &event);
                    now
                }
                Some(told) => self.repeat(reference, None, &event, told, now),
            };
            memory.volume_problems.push((problem.clone(), at));
        }
        volumes
    }

    /// The pod's volumes, without which none of its containers starts.
    pub(super) async fn need_volumes(
        &self,
        pod: &Arc<Pod>,
        reference: &PodRef,
        memory: &mut Memory,
    ) -> Result<PodVolumes, Retry> {
        let wanted = pod.spec.as_ref().and_then(|spec| spec.volumes.as_deref()).unwrap_or_default();
        if wanted.is_empty() {
            return Ok(PodVolumes::default());
        }
        self.begin(reference, Activity::SettingUpVolumes);
        let volumes = self.set_up_volumes(pod, reference, memory).await;
        if wanted.iter().all(|volume| volumes.mounted.contains_key(&volume.name)) {
            return Ok(volumes);
        }
        if let Some(problem) = volumes.problems.first() {
            memory.failure = Some(problem.to_string());
        }
        Err(Retry::BackOff)
    }
}
