//! `POST /v1/restart`: requests that containers of a pod are restarted. The pod's plan restarts them.

use std::sync::Arc;

use axum::extract::{Query, State};
use axum::routing::post;
use axum::{Json, Router};
use hostlet_base::ContainerId;
use hostlet_engine::worker::RestartRequests;
use hostlet_observe::pleg::{Cache, PodStatus};
use hostlet_pod::{ContainerKind, has_ended, pod_ref};
use hostlet_runtime::cri::ContainerState;
use k8s_openapi::api::core::v1::{Container, Pod};
use serde::{Deserialize, Serialize};

use super::error::RequestError;
use super::find::{PodFinder, find_container, not_started};

/// The query of `/v1/restart`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RestartQuery {
    /// Name of the pod, with or without the node's appended, or `<namespace>/<name>`.
    pub pod: String,
    /// Namespace of the pod; any if missing.
    pub namespace: Option<String>,
    /// Name of the container; all that run if missing.
    pub container: Option<String>,
    /// Whether to restart containers of a pod that never restarts them.
    #[serde(default)]
    pub force: bool,
}

/// The accepted request.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RestartView {
    /// The pod, as `<namespace>/<name>`.
    pub pod: String,
    /// The containers that will be restarted.
    pub containers: Vec<String>,
}

/// What restarts need.
pub struct RestartEndpoint {
    /// The pods of this node.
    pub finder: PodFinder,
    /// What the container runtime has.
    pub observed: Cache,
    /// Takes the requests.
    pub restarts: RestartRequests,
}

impl RestartEndpoint {
    /// The endpoint.
    pub(super) fn routes(self) -> Router {
        Router::new().route("/v1/restart", post(restart)).with_state(Arc::new(self))
    }
}

/// Responds once the request is stored: a daemon that is killed right after does not forget it.
async fn restart(
    State(endpoint): State<Arc<RestartEndpoint>>,
    Query(query): Query<RestartQuery>,
) -> Result<Json<RestartView>, RequestError> {
    let pod = endpoint.finder.find(&query.pod, query.namespace.as_deref())?;
    let reference = pod_ref(&pod);
    let observed = endpoint.observed.get(&reference)?;
    let chosen = targets(&pod, &observed, &query)?;
    let (containers, ids): (Vec<String>, Vec<ContainerId>) = chosen.into_iter().unzip();
    tracing::info!(pod = %reference, uid = %reference.uid, containers = containers.join(", "), "restart requested");
    endpoint.restarts.request(&reference.uid, &ids).await;
    Ok(Json(RestartView { pod: reference.to_string(), containers }))
}

/// The containers to restart, with their present instances: those that run, and those that wait to be restarted.
fn targets(
    pod: &Pod,
    observed: &PodStatus,
    query: &RestartQuery,
) -> Result<Vec<(String, ContainerId)>, RequestError> {
    let name = pod_ref(pod).to_string();
    let spec = pod.spec.as_ref();
    if pod.metadata.deletion_timestamp.is_some() {
        return Err(RequestError::Ended { pod: name, how: "is terminating" });
    }
    if pod.status.as_ref().is_some_and(has_ended) {
        return Err(RequestError::Ended {
            pod: name,
            how: "has ended; change or remove its definition to run it again",
        });
    }
    if !query.force && spec.and_then(|spec| spec.restart_policy.as_deref()) == Some("Never") {
        return Err(RequestError::NeverRestarts { pod: name });
    }
    let named: Vec<&str> = match &query.container {
        Some(container) => vec![find_container(pod, Some(container))?],
        None => spec.into_iter().flat_map(|spec| &spec.containers).map(|c| c.name.as_str()).collect(),
    };
    let is_lasting = |name: &str| {
        let is_sidecar =
            |c: &Container| c.name == name && ContainerKind::of_init(c) == ContainerKind::Sidecar;
        spec.is_some_and(|spec| {
            spec.containers.iter().any(|c| c.name == name)
                || spec.init_containers.iter().flatten().any(is_sidecar)
        })
    };
    let mut chosen = Vec::new();
    let mut missing = None;
    for container in named {
        if !is_lasting(container) {
            return Err(RequestError::NotLasting { pod: name, container: container.to_owned() });
        }
        match observed.container(container).filter(|seen| match seen.state {
            ContainerState::Running | ContainerState::Exited => true,
            ContainerState::Created | ContainerState::Unknown => false,
        }) {
            Some(seen) => chosen.push((container.to_owned(), seen.id.clone())),
            None => missing = Some(container),
        }
    }
    match (chosen.is_empty(), missing) {
        (true, Some(container)) => Err(not_started(pod, container, "not started yet".to_owned()).into()),
        (true, None) | (false, _) => Ok(chosen),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use hostlet_pod::testing::{container, exited};
    use hostlet_runtime::cri::ContainerStatus;

    fn chosen(edit: serde_json::Value, seen: &[ContainerStatus], query: &RestartQuery) -> String {
        let mut pod = json!({
            "metadata": {"name": "p", "namespace": "default", "uid": "u"},
            "spec": {"containers": [{"name": "a"}, {"name": "b"}], "initContainers": [{"name": "i"}]},
            "status": {"phase": "Running"},
        });
        for (section, fields) in edit.as_object().unwrap() {
            for (name, value) in fields.as_object().unwrap() {
                pod[section][name] = value.clone();
            }
        }
        let pod: Pod = serde_json::from_value(pod).unwrap();
        let observed = PodStatus { containers: seen.to_vec(), ..PodStatus::empty(pod_ref(&pod)) };
        match targets(&pod, &observed, query) {
            Ok(chosen) => chosen.into_iter().map(|(name, id)| format!("{name}={id} ")).collect(),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn what_runs_or_waits_is_restarted_and_nothing_else() {
        let seen = [container("a", 2, ContainerState::Running), exited("a", 1, 1), exited("b", 0, 1)];
        let all = RestartQuery::default();
        let one = |name: &str| RestartQuery { container: Some(name.to_owned()), ..all.clone() };
        let never = json!({"spec": {"restartPolicy": "Never"}});
        for (edit, seen, query, said) in [
            (json!({}), &seen[..], &all, "a=a-2 b=b-0 "),
            (json!({}), &seen, &one("b"), "b=b-0 "),
            (json!({}), &seen[..1], &all, "a=a-2 "),
            (json!({}), &[], &all, "container \"b\" in pod \"p\" is not started yet"),
            (json!({}), &seen, &one("x"), "container x is not valid for pod p, choose one of: [a b i]"),
            (
                json!({}),
                &seen,
                &one("i"),
                "container i of pod default/p is not one of its main containers or sidecars",
            ),
            (never.clone(), &seen, &all, "restartPolicy Never"),
            (never, &seen, &RestartQuery { force: true, ..all.clone() }, "a=a-2 b=b-0 "),
            (json!({"status": {"phase": "Succeeded"}}), &seen, &all, "has ended"),
            (
                json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}),
                &seen,
                &all,
                "is terminating",
            ),
        ] {
            let chosen = chosen(edit, seen, query);
            assert!(chosen.contains(said), "{chosen:?} instead of {said:?}");
        }
    }
}
