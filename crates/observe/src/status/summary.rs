//! A pod in one line, as `kubectl get pods` prints it (upstream `printPod`). Pure.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{ContainerStateTerminated, ContainerStatus, Pod, PodStatus};

use hostlet_base::{human_duration, reasons};
use hostlet_pod::view::PodView;
use hostlet_pod::{ContainerKind, PodPhase, has_ended};

/// The cells of a pod's line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodSummary {
    /// `metadata.namespace`.
    pub namespace: String,
    /// `metadata.name`.
    pub name: String,
    /// The ready containers and their total, e.g. `1/2`.
    pub ready: String,
    /// The phase, or a more specific word: `CrashLoopBackOff`, `Init:0/1`, `Terminating`.
    pub status: String,
    /// Restarts and when the last one was, `3 (5m ago)`.
    pub restarts: String,
    /// Their number alone.
    pub restart_count: i32,
    /// The pod's age.
    pub age: String,
    /// Its primary address; `<none>` without.
    pub ip: String,
    /// Its QoS class.
    pub qos: String,
}

/// Totals of the containers counted so far.
#[derive(Default)]
struct Tally {
    ready: usize,
    restarts: i32,
    last_restart: Option<Timestamp>,
}

impl Tally {
    fn add_restarts(&mut self, status: &ContainerStatus) {
        self.restarts = self.restarts.saturating_add(status.restart_count);
        let ended = status.last_state.as_ref().and_then(|last| last.terminated.as_ref());
        self.last_restart =
            self.last_restart.max(ended.and_then(|ended| Some(ended.finished_at.as_ref()?.0)));
    }
}

/// The pod's line as of now.
pub fn summary(pod: &Pod, now: Timestamp) -> PodSummary {
    let view = PodView::from(pod);
    let none = PodStatus::default();
    let status = pod.status.as_ref().unwrap_or(&none);
    let sidecars = view
        .init_containers()
        .iter()
        .filter(|init| ContainerKind::of_init(init) == ContainerKind::Sidecar)
        .count();
    let reason = status.reason.clone().filter(|reason| !reason.is_empty());
    let mut word = reason.or_else(|| status.phase.clone()).unwrap_or_default();

    let mut all_inits = Tally::default();
    let mut tally = Tally::default();
    let init_word = init_word(view, status, &mut all_inits, &mut tally);
    let initializing = init_word.is_some();
    word = init_word.unwrap_or(word);
    if !initializing || holds(status, "Initialized") {
        word = main_word(status, &mut tally, word);
    } else {
        tally = Tally { ready: tally.ready, ..all_inits };
    }
    if view.meta.deletion_timestamp.is_some() && !has_ended(status) {
        word = "Terminating".to_owned();
    }

    let since = |then: Timestamp| human_duration(now.duration_since(then));
    let restarts = match tally.last_restart {
        Some(last) if tally.restarts != 0 => format!("{} ({} ago)", tally.restarts, since(last)),
        _ => tally.restarts.to_string(),
    };
    // A static pod has no creation timestamp; its age counts from its start.
    let created = view.meta.creation_timestamp.as_ref().or(status.start_time.as_ref());
    PodSummary {
        namespace: view.namespace.to_owned(),
        name: view.name.to_owned(),
        ready: format!("{}/{}", tally.ready, view.spec.containers.len() + sidecars),
        status: word,
        restarts,
        restart_count: tally.restarts,
        age: created.map_or_else(|| "<unknown>".to_owned(), |created| since(created.0)),
        ip: status.pod_ip.clone().unwrap_or_else(|| "<none>".to_owned()),
        qos: status.qos_class.clone().unwrap_or_default(),
    }
}

/// The progress of initialization, unless complete. Counts the restarts of all init containers, and separately the restarts
/// and readiness of sidecars.
fn init_word(pod: PodView<'_>, status: &PodStatus, all: &mut Tally, sidecars: &mut Tally) -> Option<String> {
    let inits = pod.init_containers();
    for (index, container) in status.init_container_statuses.iter().flatten().enumerate() {
        all.add_restarts(container);
        let init = inits.iter().find(|init| init.name == container.name);
        let is_sidecar = init.map(ContainerKind::of_init) == Some(ContainerKind::Sidecar);
        if is_sidecar {
            sidecars.add_restarts(container);
        }
        let state = container.state.as_ref();
        let ended = state.and_then(|state| state.terminated.as_ref());
        let waiting = state.and_then(|state| state.waiting.as_ref()?.reason.as_deref());
        match (ended, waiting) {
            (Some(ended), _) if ended.exit_code == 0 => {}
            _ if is_sidecar && container.started == Some(true) => {
                sidecars.ready += usize::from(container.ready)
            }
            (Some(ended), _) => return Some(format!("Init:{}", ending(ended))),
            (None, Some(reason)) if !reason.is_empty() && reason != reasons::POD_INITIALIZING => {
                return Some(format!("Init:{reason}"));
            }
            (None, _) => return Some(format!("Init:{index}/{}", inits.len())),
        }
    }
    None
}

/// The word of the first main container that waits or has terminated.
fn main_word(status: &PodStatus, tally: &mut Tally, mut word: String) -> String {
    let mut has_running = false;
    let mut failure = None;
    for container in status.container_statuses.iter().flatten().rev() {
        tally.add_restarts(container);
        let Some(state) = &container.state else { continue };
        let waiting = state.waiting.as_ref().and_then(|waiting| waiting.reason.as_deref());
        if let Some(reason) = waiting.filter(|reason| !reason.is_empty()) {
            word = reason.to_owned();
        } else if let Some(ended) = &state.terminated {
            word = ending(ended);
            if ended.exit_code != 0 {
                failure = Some(word.clone());
            }
        } else if container.ready && state.running.is_some() {
            has_running = true;
            tally.ready += 1;
        }
    }
    match failure {
        _ if word != reasons::COMPLETED => word,
        // Some containers completed while others still run.
        _ if has_running && holds(status, "Ready") => PodPhase::Running.as_str().to_owned(),
        Some(failure) => failure,
        None if has_running => "NotReady".to_owned(),
        None => word,
    }
}

fn ending(ended: &ContainerStateTerminated) -> String {
    match (ended.reason.as_deref(), ended.signal) {
        (Some(reason), _) if !reason.is_empty() => reason.to_owned(),
        (_, Some(signal)) if signal != 0 => format!("Signal:{signal}"),
        _ => format!("ExitCode:{}", ended.exit_code),
    }
}

fn holds(status: &PodStatus, condition: &str) -> bool {
    status.conditions.iter().flatten().any(|it| it.type_ == condition && it.status == "True")
}

#[cfg(test)]
#[path = "summary_tests.rs"]
mod tests;
