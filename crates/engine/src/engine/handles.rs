//! What others see of the engine: what runs and why, and the doors for their requests. Cheap to clone.

use std::collections::BTreeMap;

use hostlet_base::PodUid;
use hostlet_image::gc::ImageGc;
use hostlet_image::preload::PreloadProblem;
use hostlet_observe::stats::StorageStats;
use hostlet_observe::status::timeline::Timeline;
use hostlet_observe::status::{PodActivities, PodDirectory, StatusCache};
use hostlet_pod::objects::VolumeNeeds;
use hostlet_pod::{DesiredPods, FailingProbes, PodKill, ProbeResults};
use hostlet_telemetry::Metrics;
use tokio::sync::watch;

use crate::admission::AdoptedPod;
use crate::grants::NumaGrants;
use crate::housekeeping::DeadContainers;
use crate::shutdown::ShutdownOutputs;
use crate::worker::RestartRequests;

/// The handles of a built engine.
#[derive(Clone)]
pub struct EngineHandles {
    /// The pods of this node, also the rejected ones.
    pub pods: PodDirectory,
    /// The admitted pods.
    pub desired_pods: watch::Receiver<DesiredPods>,
    /// What pods wait for that are not admitted yet, such as devices: clauses for people.
    pub awaited_grants: watch::Receiver<BTreeMap<PodUid, String>>,
    /// CPUs and memory that containers have for themselves.
    pub numa: NumaGrants,
    /// The statuses of pods.
    pub status_cache: StatusCache,
    /// What their workers do.
    pub activities: PodActivities,
    /// The steps of each pod and when they began, removed pods included.
    pub timeline: Timeline,
    /// The pods that an earlier daemon admitted, in that order.
    pub adopted: Vec<AdoptedPod>,
    /// The pods that have to end although a source names them.
    pub kills: watch::Sender<BTreeMap<PodUid, PodKill>>,
    /// Restarts that users request.
    pub restarts: RestartRequests,
    /// What the volumes of pods need and the pods do not name: Secrets and tokens.
    pub volume_needs: watch::Receiver<VolumeNeeds>,
    /// What the volumes of pods take.
    pub usage: StorageStats,
    /// The garbage collection of images.
    pub image_gc: ImageGc,
    /// The containers of terminated pods.
    pub dead_containers: DeadContainers,
    /// What probes found, and their metrics.
    pub probes: ProbeHandles,
    /// Shutdowns of the host.
    pub shutdown: ShutdownOutputs,
    /// What does not work.
    pub problems: ProblemHandles,
}

/// What probes say to others.
#[derive(Clone)]
pub struct ProbeHandles {
    /// What they have found.
    pub results: ProbeResults,
    /// The answers of failing probes.
    pub failing: FailingProbes,
    /// The metrics of `/metrics/probes`, which the kubelet serves apart.
    pub metrics: Metrics,
}

/// What does not work, for people.
#[derive(Clone)]
pub struct ProblemHandles {
    /// Archives of images that cannot be imported.
    pub preload: watch::Receiver<Vec<PreloadProblem>>,
    /// What pods of others have on this host.
    pub foreign: watch::Receiver<Option<String>>,
    /// Leftover shims that cannot be killed.
    pub shims: watch::Receiver<Option<String>>,
}
