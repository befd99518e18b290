//! The engine before the runtime has answered: what decides about pods, and what others see of them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use hostlet_base::PodUid;
use hostlet_image::gc::{ImageGc, ImageGcDeps, ImageGcTask};
use hostlet_image::preload::PreloadOutputs;
use hostlet_observe::stats::{StorageSettings, StorageStats};
use hostlet_observe::status::timeline::Timeline;
use hostlet_observe::status::{PodActivities, PodDirectory, StatusCache, register_resizes, register_waiting};
use hostlet_pod::{AdmittedPod, DesiredPods, FailingProbes, ProbeResults, RejectedPod};
use hostlet_volume::{VolumeSettings, Volumes};
use tokio::sync::watch;

use super::deps::EngineDeps;
use super::driver_stats::driver_stats;
use super::handles::{EngineHandles, ProbeHandles, ProblemHandles};
use super::pod_images::pod_images;
use super::settings::EngineSettings;
use super::task::{EngineTask, TaskStage};
use crate::admission::{
    Admission, AdmissionInputs, AdmissionOutputs, AdmittedPods, AdoptedPod, ResizeLimits,
};
use crate::grants::{GrantMetrics, GrantRequests, GrantStates, Grants, NumaGrants};
use crate::housekeeping::DeadContainers;
use crate::probe::ProbeMetrics;
use crate::shutdown::Shutdown;
use crate::worker::RestartRequests;

/// The parts that work on pods. Nothing runs before its tasks do.
pub struct Engine {
    pub(super) settings: EngineSettings,
    pub(super) deps: EngineDeps,
    pub(super) handles: EngineHandles,
    pub(super) admitted: AdmittedPods,
    pub(super) volumes: Volumes,
    pub(super) grants: Grants,
    /// What new pods are to be granted, and where it is published what became of that.
    pub(super) granting: Granting,
    pub(super) shutdown: Shutdown,
    pub(super) probe_metrics: ProbeMetrics,
    pub(super) problems: Problems,
    /// Where the preloading of images publishes.
    pub(super) preload: PreloadOutputs,
    /// Those that need no answer of the runtime.
    first: Vec<EngineTask>,
    /// The others that exist already.
    pub(super) later: Vec<EngineTask>,
}

/// Where tasks publish what does not work.
#[derive(Default)]
pub(super) struct Problems {
    pub(super) foreign: watch::Sender<Option<String>>,
    pub(super) shims: watch::Sender<Option<String>>,
}

/// What admission and the grants task exchange.
pub(super) struct Granting {
    pub(super) requests: watch::Receiver<GrantRequests>,
    pub(super) states: watch::Sender<GrantStates>,
    pub(super) metrics: GrantMetrics,
}

/// Where admission publishes its decisions.
struct Decisions {
    desired_pods: watch::Sender<DesiredPods>,
    rejected: watch::Sender<Vec<RejectedPod>>,
    granting: watch::Sender<GrantRequests>,
    grants: watch::Receiver<GrantStates>,
    awaited: watch::Sender<BTreeMap<PodUid, String>>,
    grant_metrics: GrantMetrics,
}

impl Engine {
    /// Builds the parts, and the handles by which others see them.
    pub fn build(settings: EngineSettings, deps: EngineDeps) -> (Self, EngineHandles) {
        let (admitted, adopted) = AdmittedPods::new(deps.store.clone());
        let shutdown = Shutdown::new(settings.shutdown.clone(), deps.store.clone(), &deps.metrics);
        let (status_cache, timeline) = (StatusCache::default(), Timeline::default());
        register_resizes(&deps.metrics, &status_cache);
        register_waiting(&deps.metrics, &status_cache);
        let probe_metrics = ProbeMetrics::default();
        probe_metrics.register(&deps.probe_metrics);
        let (desired_in, desired_pods) = watch::channel(DesiredPods::default());
        let (rejected_in, rejected) = watch::channel(Vec::new());
        let (awaited, awaited_grants) = watch::channel(BTreeMap::new());
        let numa = NumaGrants::new(deps.grants.numa.clone(), settings.root_dir.clone());
        let grants = Grants::new(deps.grants.devices.clone(), numa);
        let (volumes, volume_task) = volumes(&settings, &deps);
        let (usage, usage_task) = usage(&settings, &deps, &volumes, &desired_pods);
        let (problems, preload) = (Problems::default(), PreloadOutputs::default());
        if deps.preload.is_none() {
            preload.images.send_replace(Some(BTreeSet::new()));
        }
        let (image_gc, gc_task) =
            image_gc(&settings, &deps, &preload, &desired_pods, &adopted, &status_cache);
        let dead_containers = DeadContainers {
            runtime: deps.runtime.service.clone(),
            observed: deps.runtime.pleg.cache().clone(),
            status_cache: status_cache.clone(),
            own: deps.own.clone(),
            logs: settings.logs.clone(),
        };
        let handles = EngineHandles {
            pods: PodDirectory::new(status_cache.clone(), rejected, deps.sources.api.clone()),
            desired_pods,
            awaited_grants,
            numa: grants.numa().clone(),
            status_cache,
            activities: PodActivities::new(timeline.clone()),
            timeline,
            adopted,
            kills: watch::Sender::default(),
            restarts: RestartRequests::new(deps.store.clone()),
            volume_needs: volumes.needs(),
            usage,
            image_gc,
            dead_containers,
            probes: ProbeHandles {
                results: ProbeResults::default(),
                failing: FailingProbes::default(),
                metrics: deps.probe_metrics.clone(),
            },
            shutdown: shutdown.outputs(),
            problems: ProblemHandles {
                preload: preload.problems.subscribe(),
                foreign: problems.foreign.subscribe(),
                shims: problems.shims.subscribe(),
            },
        };
        let states = watch::Sender::<GrantStates>::default();
        let grant_metrics = GrantMetrics::default();
        grant_metrics.register(&deps.metrics, grants.numa());
        let (granting, requests) = watch::channel(GrantRequests::default());
        let decisions = Decisions {
            desired_pods: desired_in,
            rejected: rejected_in,
            granting,
            grants: states.subscribe(),
            awaited,
            grant_metrics: grant_metrics.clone(),
        };
        let first = vec![admission(&settings, &deps, &handles, admitted.clone(), decisions)];
        let later = vec![volume_task, usage_task, gc_task];
        let engine = Self {
            settings,
            deps,
            handles: handles.clone(),
            admitted,
            volumes,
            grants,
            granting: Granting { requests, states, metrics: grant_metrics },
            shutdown,
            probe_metrics,
            problems,
            preload,
            first,
            later,
        };
        (engine, handles)
    }

    /// The tasks that need no answer of the runtime, once: they decide about pods.
    pub fn first_tasks(&mut self) -> Vec<EngineTask> {
        std::mem::take(&mut self.first)
    }

    /// Has a test say what is admitted and what probes find, in place of the engine. Returns the record of admitted pods.
    #[cfg(test)]
    pub(crate) fn directed_by(
        &mut self,
        desired_pods: watch::Receiver<DesiredPods>,
        results: ProbeResults,
    ) -> AdmittedPods {
        self.first.clear();
        self.handles.desired_pods = desired_pods;
        self.handles.probes.results = results;
        self.admitted.clone()
    }
}

fn admission(
    settings: &EngineSettings,
    deps: &EngineDeps,
    handles: &EngineHandles,
    admitted: AdmittedPods,
    decisions: Decisions,
) -> EngineTask {
    let inputs = AdmissionInputs {
        manifests: deps.sources.manifests.clone(),
        api: deps.sources.api.clone(),
        own: settings.node.clone(),
        own_node: deps.node.own_node.clone(),
        pressure: deps.node.pressure.subscribe(),
        node: deps.node.object.clone(),
        reader: deps.node.reader.clone(),
        status_cache: handles.status_cache.clone(),
        allowed_unsafe_sysctls: settings.allowed_unsafe_sysctls.clone(),
        resize_limits: ResizeLimits {
            has_swap: settings.has_swap,
            static_cpus: deps.grants.numa.cpus.is_some(),
            static_memory: deps.grants.numa.memory.is_some(),
        },
        runtime: deps.runtime.status.clone(),
        shutdown: handles.shutdown.demands.clone(),
        own_pods: deps.own.clone(),
        evicted: handles.kills.subscribe(),
        grants: decisions.grants,
        devices: deps.grants.devices.resources(),
        has_static_policy: deps.grants.numa.are_static(),
    };
    let outputs = AdmissionOutputs {
        desired_pods: decisions.desired_pods,
        rejected: decisions.rejected,
        admitted,
        granting: decisions.granting,
        awaited: decisions.awaited,
        grant_metrics: decisions.grant_metrics,
        events: deps.events.pods.clone(),
        timeline: handles.timeline.clone(),
        clock: deps.clock.clone(),
    };
    let admission = Admission::new(inputs, outputs).counted_in(&deps.metrics);
    EngineTask::with_heartbeat(TaskStage::Pods, "admission", |heartbeat, cancel| {
        admission.with_heartbeat(heartbeat).run(cancel)
    })
}

fn volumes(settings: &EngineSettings, deps: &EngineDeps) -> (Volumes, EngineTask) {
    // Those that the node registers with, until the Node object is known.
    let (own_labels, node) = (settings.node.labels.clone(), deps.node.object.clone());
    let labels = move || {
        let labels = node.borrow().as_ref().and_then(|node| node.metadata.labels.clone());
        labels.unwrap_or_else(|| own_labels.clone())
    };
    let (task, volumes) = Volumes::new(VolumeSettings {
        root: settings.root_dir.clone(),
        node: settings.amounts,
        labels: Arc::new(labels),
        mounts: deps.host.mounts.clone(),
        objects: deps.objects.objects.clone(),
        csi: deps.csi.volumes.clone(),
        drivers: deps.csi.drivers.clone(),
        expansions: deps.csi.expansions.clone(),
        file_label: deps.host.file_label.clone(),
        clock: deps.clock.clone(),
    });
    volumes.register(&deps.metrics);
    (volumes, EngineTask::new(TaskStage::Support, "volumes", |cancel| task.run(cancel)))
}

/// What removes images that nothing uses.
fn image_gc(
    settings: &EngineSettings,
    deps: &EngineDeps,
    preload: &PreloadOutputs,
    desired_pods: &watch::Receiver<DesiredPods>,
    adopted: &[AdoptedPod],
    status_cache: &StatusCache,
) -> (ImageGc, EngineTask) {
    let adopted = adopted.iter().map(|adopted| AdmittedPod::new(adopted.pod.clone()));
    let sources = ImageGcDeps {
        runtime: deps.runtime.service.clone(),
        images: deps.runtime.images.clone(),
        pods: pod_images(desired_pods.clone(), adopted.collect(), status_cache.clone()),
        archives: preload.images.subscribe(),
        measure: deps.host.measure.clone(),
        store: deps.store.clone(),
        events: deps.events.node.clone(),
        clock: deps.clock.clone(),
    };
    let (task, image_gc) = ImageGcTask::new(settings.image_gc, sources, &deps.metrics);
    (image_gc, EngineTask::new(TaskStage::Pods, "image GC", |cancel| task.run(cancel)))
}

/// What measures volumes.
fn usage(
    settings: &EngineSettings,
    deps: &EngineDeps,
    volumes: &Volumes,
    desired_pods: &watch::Receiver<DesiredPods>,
) -> (StorageStats, EngineTask) {
    let (task, usage) = StorageStats::new(StorageSettings {
        runtime: deps.runtime.service.clone(),
        observed: deps.runtime.pleg.cache().clone(),
        logs: settings.logs.clone(),
        root_dir: settings.root_dir.clone(),
        external: volumes.external(),
        external_pace: settings.volume_stats_period,
        drivers: driver_stats(deps.csi.volumes.clone()),
        clock: deps.clock.clone(),
    });
    usage.register(&deps.metrics, desired_pods);
    (usage, EngineTask::new(TaskStage::Support, "storage use", |cancel| task.run(cancel)))
}
