//! The desired pods: a few slots, passed directly or written as manifests and read back.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use hostlet_pod::{AdmittedPod, DesiredPods, ManifestOrigin};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{EnvVar, ExecAction, Pod, Probe, ResourceRequirements};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

use super::super::testing::pod_with;
use crate::admission::AdoptedPod;
use crate::source::testing::DirectoryReader;
use crate::source::{SourceState, StaticPod};

/// The names of sidecars.
pub(super) const SIDECARS: [&str; 1] = ["proxy"];

/// The container with a readiness probe, and the one with a liveness probe: each runs a command of the name of its probe.
pub(super) const WITH_READINESS: &str = "calm";
pub(super) const WITH_LIVENESS: &str = "slow";

/// The command of liveness probes.
pub(super) const ALIVE: &str = "alive";
const READY: &str = "ready";

/// Pause between two runs of a probe, seconds.
const PROBE_PERIOD: i32 = 10;

fn probe(command: &str) -> Probe {
    Probe {
        exec: Some(ExecAction { command: Some(vec![command.to_owned()]) }),
        period_seconds: Some(PROBE_PERIOD),
        timeout_seconds: Some(1),
        success_threshold: Some(1),
        failure_threshold: Some(3),
        ..Probe::default()
    }
}

/// A pod as written by its owner.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Wish {
    pub(super) name: String,
    pub(super) uid: String,
    pub(super) policy: &'static str,
    pub(super) containers: Vec<&'static str>,
    /// Its init containers; those of [`SIDECARS`] are sidecars.
    pub(super) inits: Vec<&'static str>,
    /// Part of the definition of its containers.
    pub(super) version: usize,
    /// The limit of memory of each main container, MiB, which is resized in place.
    pub(super) memory: i64,
    /// How long it may be active, seconds: longer than any simulation.
    pub(super) deadline: Option<i64>,
}

impl Wish {
    fn pod(&self) -> Arc<Pod> {
        let mut pod = Pod::clone(&pod_with(&self.name, &self.uid, self.policy, &self.containers));
        let inits = pod_with(&self.name, &self.uid, self.policy, &self.inits);
        let mut inits = inits.spec().containers.clone();
        for init in inits.iter_mut().filter(|init| SIDECARS.contains(&init.name.as_str())) {
            init.restart_policy = Some("Always".to_owned());
        }
        if let Some(spec) = &mut pod.spec {
            spec.init_containers = Some(inits).filter(|inits| !inits.is_empty());
            spec.active_deadline_seconds = self.deadline;
        }
        for container in pod.spec.iter_mut().flat_map(|spec| &mut spec.containers) {
            let value = Some(self.version.to_string());
            container.env = Some(vec![EnvVar { name: "VERSION".to_owned(), value, value_from: None }]);
            let limits = [("memory".to_owned(), Quantity(format!("{}Mi", self.memory)))].into();
            container.resources = Some(ResourceRequirements { limits: Some(limits), ..Default::default() });
            container.readiness_probe = (container.name == WITH_READINESS).then(|| probe(READY));
            container.liveness_probe = (container.name == WITH_LIVENESS).then(|| probe(ALIVE));
        }
        Arc::new(pod)
    }

    fn manifest(&self) -> String {
        let containers: Vec<String> = self.containers.iter().map(|name| {
            let (version, memory) = (self.version, self.memory);
            let probe = match *name {
                WITH_READINESS => format!(", readinessProbe: {{exec: {{command: [{READY}]}}, periodSeconds: {PROBE_PERIOD}}}"),
                WITH_LIVENESS => format!(", livenessProbe: {{exec: {{command: [{ALIVE}]}}, periodSeconds: {PROBE_PERIOD}}}"),
                _ => String::new(),
            };
            format!("{{name: {name}, image: img, imagePullPolicy: IfNotPresent, env: [{{name: VERSION, value: \"{version}\"}}], resources: {{limits: {{memory: {memory}Mi}}}}{probe}}}")
        }).collect();
        let inits = self.inits.iter().map(|name| {
            let policy = if SIDECARS.contains(name) { ", restartPolicy: Always" } else { "" };
            format!("{{name: {name}, image: img, imagePullPolicy: IfNotPresent{policy}}}")
        });
        let inits: Vec<String> = inits.collect();
        let (name, uid, policy) = (&self.name, &self.uid, self.policy);
        let deadline = self.deadline.map(|seconds| format!("\n  activeDeadlineSeconds: {seconds}"));
        let deadline = deadline.unwrap_or_default();
        format!(
            "apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}, uid: {uid}}}\nspec:\n  restartPolicy: {policy}\n  \
             terminationGracePeriodSeconds: 30{deadline}\n  initContainers: [{}]\n  containers: [{}]\n",
            inits.join(", "),
            containers.join(", ")
        )
    }
}

fn static_pod(slot: usize, pod: &Arc<Pod>) -> Arc<StaticPod> {
    let origin = ManifestOrigin::File(format!("{slot}.yaml").into());
    Arc::new(StaticPod { pod: pod.clone(), origin, unsupported: Vec::new() })
}

/// The source of the pods.
pub(super) enum Source {
    /// Values; an unchanged pod keeps its pointer.
    Value(BTreeMap<usize, (Wish, Arc<Pod>)>),
    /// A directory, which outlives daemons.
    Directory { path: PathBuf, reader: Box<DirectoryReader> },
}

impl Source {
    pub(super) fn value() -> Self {
        Self::Value(BTreeMap::new())
    }

    pub(super) fn directory(root: &Path) -> Self {
        let path = root.join("manifests");
        fs::create_dir(&path).unwrap();
        Self::Directory { reader: Box::new(DirectoryReader::new(&path, &[])), path }
    }

    /// Sets the pod of a slot.
    pub(super) fn put(&mut self, slot: usize, wish: &Wish) {
        match self {
            Self::Value(pods) => {
                if pods.get(&slot).is_none_or(|(known, _)| known != wish) {
                    pods.insert(slot, (wish.clone(), wish.pod()));
                }
            }
            Self::Directory { path, .. } => {
                // Written atomically.
                let new = path.join(".new");
                fs::write(&new, wish.manifest()).unwrap();
                fs::rename(new, path.join(format!("{slot}.yaml"))).unwrap();
            }
        }
    }

    pub(super) fn remove(&mut self, slot: usize) {
        match self {
            Self::Value(pods) => _ = pods.remove(&slot),
            Self::Directory { path, .. } => _ = fs::remove_file(path.join(format!("{slot}.yaml"))),
        }
    }

    /// Truncates a manifest. Returns whether there was one.
    pub(super) fn damage(&mut self, slot: usize) -> bool {
        let Self::Directory { path, .. } = self else { return false };
        let file = path.join(format!("{slot}.yaml"));
        let Ok(whole) = fs::read(&file) else { return false };
        fs::write(file, &whole[..whole.len() / 2]).is_ok()
    }

    /// A new daemon knows the stored pods.
    pub(super) fn forget(&mut self, adopted: &[AdoptedPod]) {
        if let Self::Directory { path, reader } = self {
            let known: Vec<StaticPod> = adopted.iter().filter_map(AdoptedPod::of_manifest).collect();
            **reader = DirectoryReader::new(path, &known);
        }
    }

    /// The current desired pods. Unchanged pods in `known` keep their pointers.
    pub(super) fn read(
        &mut self,
        now: Timestamp,
        known: &BTreeMap<String, Arc<AdmittedPod>>,
    ) -> (SourceState, DesiredPods) {
        let state = match self {
            Self::Value(pods) => SourceState {
                ready: true,
                pods: pods.iter().map(|(slot, (_, pod))| static_pod(*slot, pod)).collect(),
                problems: Vec::new(),
            },
            Self::Directory { reader, .. } => reader.read(now),
        };
        let admit = |pod: &Arc<Pod>| {
            let unchanged = known.values().find(|known| Arc::ptr_eq(known.object(), pod));
            unchanged.cloned().unwrap_or_else(|| AdmittedPod::new(pod.clone()))
        };
        let pods = state.pods.iter().map(|pod| admit(&pod.pod)).collect();
        let wanted = DesiredPods { ready: state.ready, pods, ..DesiredPods::default() };
        (state, wanted)
    }
}
