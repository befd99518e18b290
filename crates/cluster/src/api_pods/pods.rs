//! Applies watch events to the state of the API server's pods. Pure.
//!
//! The pod object is replaced only when a relevant part changed: metadata, spec, or a phase that became terminal. Statuses
//! that this kubelet wrote come back with every patch and must not wake anything; they are stored separately from the pod, for
//! comparison with the status to be written.

use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use kube::runtime::watcher::Event;

use hostlet_base::{CONFIG_MIRROR_ANNOTATION, CONFIG_SEEN_ANNOTATION, CONFIG_SOURCE_ANNOTATION};
use hostlet_pod::validation::unsupported;
use hostlet_pod::{ApiPod, ApiState, Mirror, has_ended, pod_uid};

/// The state, and the listing in progress that will replace it.
#[derive(Debug, Default)]
pub(super) struct ApiPods {
    state: ApiState,
    listing: Option<Vec<Pod>>,
}

impl ApiPods {
    /// Starts with the pods that a previous daemon knew, until the first listing.
    pub(super) fn restored(known: impl IntoIterator<Item = Arc<Pod>>) -> Self {
        let mut state = ApiState::default();
        for pod in known {
            let status = Arc::new(pod.status.clone().unwrap_or_default());
            let unsupported = unsupported(&pod);
            let known = ApiPod { pod: pod.clone(), status, version: String::new(), unsupported };
            state.pods.insert(pod_uid(&pod), Arc::new(known));
        }
        Self { state, listing: None }
    }

    pub(super) fn state(&self) -> &ApiState {
        &self.state
    }

    /// Applies an event received at `now`; returns whether the state changed.
    pub(super) fn apply(&mut self, event: Event<Pod>, now: Timestamp) -> bool {
        match event {
            Event::Init => {
                self.listing = Some(Vec::new());
                false
            }
            Event::InitApply(pod) => {
                self.listing.get_or_insert_default().push(pod);
                false
            }
            Event::InitDone => {
                let mut old = std::mem::take(&mut self.state).pods;
                for pod in self.listing.take().unwrap_or_default() {
                    let before = old.remove(&pod_uid(&pod));
                    self.put(pod, before, now);
                }
                self.state.ready = true;
                true
            }
            Event::Apply(pod) => {
                let before = self.state.pods.remove(&pod_uid(&pod));
                self.put(pod, before, now);
                self.state.problem = None;
                true
            }
            Event::Delete(pod) => {
                let (key, uid) = (name_of(&pod), pod_uid(&pod));
                self.state.pods.remove(&uid);
                if self.state.mirrors.get(&key).is_some_and(|mirror| pod_uid(&mirror.pod) == uid) {
                    self.state.mirrors.remove(&key);
                }
                self.state.problem = None;
                true
            }
        }
    }

    /// Records that the API server cannot be read; returns whether the reason is new.
    pub(super) fn failed(&mut self, problem: String) -> bool {
        let is_new = self.state.problem.as_ref() != Some(&problem);
        self.state.problem = Some(problem);
        is_new
    }

    /// Records that the API server can be read; returns whether that is new.
    pub(super) fn recovered(&mut self) -> bool {
        self.state.problem.take().is_some()
    }

    fn put(&mut self, mut pod: Pod, before: Option<Arc<ApiPod>>, now: Timestamp) {
        // Half of the object's size, and not needed.
        pod.metadata.managed_fields = None;
        if is_mirror(&pod) {
            self.state.mirrors.insert(name_of(&pod), Arc::new(Mirror { pod: Arc::new(pod) }));
            return;
        }
        let uid = pod_uid(&pod);
        let version = pod.metadata.resource_version.take().unwrap_or_default();
        let status = Arc::new(pod.status.clone().unwrap_or_default());
        if let Some(before) = &before
            && before.version == version
        {
            self.state.pods.insert(uid, before.clone());
            return;
        }
        let seen = before.as_ref().and_then(|before| seen(&before.pod)).unwrap_or_else(|| now.to_string());
        let annotations = pod.metadata.annotations.get_or_insert_default();
        annotations.insert(CONFIG_SOURCE_ANNOTATION.to_owned(), "api".to_owned());
        annotations.insert(CONFIG_SEEN_ANNOTATION.to_owned(), seen);
        let (pod, unsupported) = match before {
            Some(before) if is_effectively_equal(&before.pod, &pod) && !has_news(&pod, &before) => {
                (before.pod.clone(), before.unsupported.clone())
            }
            Some(_) | None => {
                let unsupported = unsupported(&pod);
                (Arc::new(pod), unsupported)
            }
        };
        self.state.pods.insert(uid, Arc::new(ApiPod { pod, status, version, unsupported }));
    }
}

fn is_mirror(pod: &Pod) -> bool {
    let annotations = pod.metadata.annotations.as_ref();
    annotations.is_some_and(|annotations| annotations.contains_key(CONFIG_MIRROR_ANNOTATION))
}

/// Whether two versions of a pod are equivalent for this node. Of the status, only a phase that became terminal counts: another
/// client failed the pod.
fn is_effectively_equal(a: &Pod, b: &Pod) -> bool {
    a.metadata == b.metadata && a.spec == b.spec && has_terminal_phase(a) == has_terminal_phase(b)
}

/// Whether the API server's status is newer in a relevant way: a previous daemon wrote it, or a readiness gate changed.
fn has_news(pod: &Pod, before: &ApiPod) -> bool {
    let is_from_store = before.version.is_empty();
    (is_from_store && pod.status != before.pod.status) || gates(pod) != gates(&before.pod)
}

/// The statuses of the conditions named by the pod's readiness gates.
fn gates(pod: &Pod) -> Vec<(&str, Option<&str>)> {
    let named = pod.spec.as_ref().and_then(|spec| spec.readiness_gates.as_deref()).unwrap_or_default();
    let conditions = pod.status.as_ref().and_then(|status| status.conditions.as_deref()).unwrap_or_default();
    let of =
        |name: &str| conditions.iter().find(|condition| condition.type_ == name).map(|c| c.status.as_str());
    named.iter().map(|gate| (gate.condition_type.as_str(), of(&gate.condition_type))).collect()
}

fn has_terminal_phase(pod: &Pod) -> bool {
    pod.status.as_ref().is_some_and(has_ended)
}

fn seen(pod: &Pod) -> Option<String> {
    pod.metadata.annotations.as_ref()?.get(CONFIG_SEEN_ANNOTATION).cloned()
}

fn name_of(pod: &Pod) -> (String, String) {
    (pod.metadata.namespace.clone().unwrap_or_default(), pod.metadata.name.clone().unwrap_or_default())
}
