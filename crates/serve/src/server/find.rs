//! Resolves the pod, container and instance in a request. Pure, except that it reads the directory of pods. Error texts are those of
//! `kubectl` and the kubelet where they exist.

use hostlet_base::{ContainerId, PodRef};
use hostlet_engine::container_logs::{self, NoInstance, bare_id};
use hostlet_observe::status::{DirectoryEntry, PodDirectory};
use k8s_openapi::api::core::v1::{ContainerStatus, Pod};

use crate::explain::{PodName, matches_pod_name, nearest_names};

/// The annotation with the default container (also read by `kubectl logs`).
pub const DEFAULT_CONTAINER: &str = "kubectl.kubernetes.io/default-container";

/// Why a target is ambiguous or missing. `Display` is for users.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum FindError {
    /// The namespace was given twice.
    #[error("the pod's name has namespace {0:?}, but namespace {1:?} was requested")]
    Namespaces(String, String),
    /// No pod of this name.
    #[error("pod {name:?} not found{hint}")]
    NoPod {
        /// As requested.
        name: String,
        /// A suggestion.
        hint: String,
    },
    /// More than one.
    #[error("more than one pod is called {name:?}, choose one of: [{}]", candidates.join(" "))]
    ManyPods {
        /// As requested.
        name: String,
        /// `<namespace>/<name>` of each.
        candidates: Vec<String>,
    },
    /// No container was named, and there are several.
    #[error("a container name must be specified for pod {pod}, choose one of: [{}]", containers.join(" "))]
    ManyContainers {
        /// Name of the pod.
        pod: String,
        containers: Vec<String>,
    },
    /// The pod has no such container.
    #[error("container {container} is not valid for pod {pod}, choose one of: [{}]", containers.join(" "))]
    NoContainer {
        /// Name of the pod.
        pod: String,
        /// As requested.
        container: String,
        containers: Vec<String>,
    },
    /// The container has no instance with a log.
    #[error(transparent)]
    Instance(NoInstance),
    /// The container has not run yet.
    #[error("container {container:?} in pod {pod:?} is {why}")]
    NotStarted {
        /// Name of the container.
        container: String,
        /// Name of the pod.
        pod: String,
        /// Its state.
        why: String,
    },
}

impl FindError {
    /// Whether the target is missing, rather than ambiguous or too early.
    pub(super) fn is_not_found(&self) -> bool {
        match self {
            Self::NoPod { .. } | Self::NoContainer { .. } | Self::Instance(NoInstance::NoPrevious { .. }) => {
                true
            }
            Self::Instance(_)
            | Self::Namespaces(..)
            | Self::ManyPods { .. }
            | Self::ManyContainers { .. }
            | Self::NotStarted { .. } => false,
        }
    }
}

/// Finds the pods of this node by their names.
#[derive(Clone)]
pub struct PodFinder {
    /// Name of the node, which ends the names of its static pods.
    pub node: String,
    /// The pods of this node.
    pub pods: PodDirectory,
}

impl PodFinder {
    /// Finds the pod `requested` and copies it with its current status.
    pub(super) fn find(&self, requested: &str, namespace: Option<&str>) -> Result<Pod, FindError> {
        let names: Vec<PodRef> = self.pods.all().values().map(DirectoryEntry::reference).collect();
        let name = find_name(&names, &self.node, requested, namespace)?;
        let found = self.pods.find(&name.namespace, &name.name);
        // It may have been removed just now.
        let found =
            found.ok_or_else(|| FindError::NoPod { name: requested.to_owned(), hint: String::new() })?;
        Ok(found.with_status())
    }
}

/// Finds the namespace and name of the pod `requested`: its name, with or without the node's appended, or `<namespace>/<name>`. Which
/// of two versions with that name is returned does not matter.
fn find_name<'p>(
    names: &'p [PodRef],
    node: &str,
    requested: &str,
    namespace: Option<&str>,
) -> Result<&'p PodRef, FindError> {
    let query = match (requested.split_once('/'), namespace) {
        (Some((own, _)), Some(other)) if own != other => {
            return Err(FindError::Namespaces(own.to_owned(), other.to_owned()));
        }
        (None, Some(namespace)) => format!("{namespace}/{requested}"),
        (Some(_), _) | (None, None) => requested.to_owned(),
    };
    let matching: Vec<&PodRef> =
        names.iter().filter(|name| matches_pod_name(&query, of(name), node)).collect();
    // An exact match takes precedence over a name without the node's.
    let name = query.rsplit('/').next().unwrap_or(&query);
    let exact: Vec<&PodRef> = matching.iter().copied().filter(|pod| &*pod.name == name).collect();
    let found = if exact.is_empty() { matching } else { exact };
    let Some(first) = found.first().copied() else {
        let known: Vec<PodName<'_>> = names.iter().map(of).collect();
        let hint = match nearest_names(&query, &known, node).as_slice() {
            [] => String::new(),
            near => format!("; did you mean {}?", near.join(" or ")),
        };
        return Err(FindError::NoPod { name: requested.to_owned(), hint });
    };
    let mut candidates: Vec<String> = found.iter().map(|pod| pod.to_string()).collect();
    candidates.sort();
    candidates.dedup();
    if candidates.len() > 1 {
        return Err(FindError::ManyPods { name: requested.to_owned(), candidates });
    }
    Ok(first)
}

/// Finds the container `requested`, or the default one.
pub(super) fn find_container<'p>(pod: &'p Pod, requested: Option<&str>) -> Result<&'p str, FindError> {
    let spec = pod.spec.as_ref();
    let main = spec.into_iter().flat_map(|spec| &spec.containers);
    let init = spec.into_iter().flat_map(|spec| spec.init_containers.iter().flatten());
    let main: Vec<&str> = main.map(|container| container.name.as_str()).collect();
    let ephemeral = spec.into_iter().flat_map(|spec| spec.ephemeral_containers.iter().flatten());
    let others = init.map(|container| container.name.as_str());
    let others = others.chain(ephemeral.map(|container| container.name.as_str()));
    let all: Vec<&str> = main.iter().copied().chain(others).collect();
    let names = || all.iter().map(|name| (*name).to_owned()).collect();
    let default = pod.metadata.annotations.as_ref().and_then(|all| all.get(DEFAULT_CONTAINER));
    match requested.or(default.map(String::as_str)) {
        Some(requested) => {
            all.iter().copied().find(|name| *name == requested).ok_or_else(|| FindError::NoContainer {
                pod: full_name(pod).to_owned(),
                container: requested.to_owned(),
                containers: names(),
            })
        }
        None => match main.as_slice() {
            [only] => Ok(only),
            _ => Err(FindError::ManyContainers { pod: full_name(pod).to_owned(), containers: names() }),
        },
    }
}

/// The running instance of a container.
pub(super) fn find_running(pod: &Pod, container: &str) -> Result<ContainerId, FindError> {
    let status = status_of(pod, container);
    let state = status.and_then(|status| status.state.as_ref());
    if state.is_some_and(|state| state.running.is_some())
        && let Some(id) = status.and_then(|status| status.container_id.as_deref()).filter(|id| !id.is_empty())
    {
        return Ok(bare_id(id));
    }
    let why = match state {
        Some(state) if state.terminated.is_some() => "not running: it has terminated".to_owned(),
        Some(state) => {
            let waiting = state.waiting.as_ref().and_then(|waiting| waiting.reason.as_deref());
            format!("not running: {}", waiting.unwrap_or("it is being started"))
        }
        None => format!("not running{}", why_pod_is_not(pod)),
    };
    Err(not_started(pod, container, why))
}

/// The instance of a container whose log is shown; of a pod that has no status of it, also why.
pub(super) fn find_instance(pod: &Pod, container: &str, previous: bool) -> Result<ContainerId, FindError> {
    container_logs::find_instance(pod, container, previous).map(bare_id).map_err(|error| match error {
        NoInstance::NotAvailable { .. } => {
            not_started(pod, container, format!("not available{}", why_pod_is_not(pod)))
        }
        other => FindError::Instance(other),
    })
}

/// There is no instance with a log.
pub(super) fn not_started(pod: &Pod, container: &str, why: String) -> FindError {
    FindError::NotStarted { container: container.to_owned(), pod: full_name(pod).to_owned(), why }
}

/// The pod's reason and message, e.g. of a rejection.
fn why_pod_is_not(pod: &Pod) -> String {
    let status = pod.status.as_ref();
    let texts = [status.and_then(|s| s.reason.as_deref()), status.and_then(|s| s.message.as_deref())];
    texts.into_iter().flatten().map(|text| format!(": {text}")).collect()
}

fn status_of<'p>(pod: &'p Pod, container: &str) -> Option<&'p ContainerStatus> {
    let status = pod.status.as_ref()?;
    let main_and_init = status.container_statuses.iter().chain(&status.init_container_statuses);
    let mut all = main_and_init.chain(&status.ephemeral_container_statuses).flatten();
    all.find(|status| status.name == container)
}

fn full_name(pod: &Pod) -> &str {
    pod.metadata.name.as_deref().unwrap_or_default()
}

fn of(pod: &PodRef) -> PodName<'_> {
    PodName { namespace: &pod.namespace, name: &pod.name }
}

#[cfg(test)]
#[path = "find_tests.rs"]
mod tests;
