//! Which instance of a container a reader of its log gets. Pure. Rules and texts are those of the kubelet's
//! `validateContainerLogStatus`.

use k8s_openapi::api::core::v1::{ContainerStatus, Pod};

use hostlet_base::{ContainerId, reasons};

/// Why a container has no instance with a log.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(
    missing_docs,
    reason = "the fields are the names of the container and its pod, and the reason in its status"
)]
pub enum NoInstance {
    /// The pod has no status of it.
    #[error("container {container:?} in pod {pod:?} is not available")]
    NotAvailable { container: String, pod: String },
    /// It has no previous instance.
    #[error("previous terminated container {container:?} in pod {pod:?} not found")]
    NoPrevious { container: String, pod: String },
    /// It terminated, and it is not known as which instance.
    #[error("container {container:?} in pod {pod:?} is terminated")]
    Terminated { container: String, pod: String },
    /// Its first instance has not started.
    #[error("container {container:?} in pod {pod:?} is waiting to start: {reason}")]
    Waiting { container: String, pod: String, reason: String },
    /// Nothing is known about its start.
    #[error("container {container:?} in pod {pod:?} is waiting to start - no logs yet")]
    NoState { container: String, pod: String },
}

/// The instance of a container whose log is shown, as `<runtime>://<ID>`: the running one, else the last one; with `previous` the one
/// before the status's current one.
///
/// # Errors
/// There is none.
pub fn find_instance<'p>(pod: &'p Pod, container: &str, previous: bool) -> Result<&'p str, NoInstance> {
    let names = || (container.to_owned(), pod.metadata.name.as_deref().unwrap_or_default().to_owned());
    let Some(status) = status_of(pod, container) else {
        let (container, pod) = names();
        return Err(NoInstance::NotAvailable { container, pod });
    };
    let last = status.last_state.as_ref().and_then(|state| state.terminated.as_ref());
    let last_id = last.map(|ended| id(ended.container_id.as_deref()));
    let terminated = || {
        let (container, pod) = names();
        NoInstance::Terminated { container, pod }
    };
    if previous {
        let (container, pod) = names();
        return last_id.flatten().ok_or(NoInstance::NoPrevious { container, pod });
    }
    let state = status.state.as_ref();
    if state.is_some_and(|state| state.running.is_some()) {
        return Ok(status.container_id.as_deref().unwrap_or_default());
    }
    if let Some(ended) = state.and_then(|state| state.terminated.as_ref()) {
        return id(ended.container_id.as_deref()).or(last_id.flatten()).ok_or_else(terminated);
    }
    if let Some(last) = last_id {
        return last.ok_or_else(terminated);
    }
    let (container, pod) = names();
    match state.and_then(|state| state.waiting.as_ref()) {
        Some(waiting) => {
            let reason = waiting_reason(waiting.reason.as_deref().unwrap_or_default()).to_owned();
            Err(NoInstance::Waiting { container, pod, reason })
        }
        None => Err(NoInstance::NoState { container, pod }),
    }
}

/// Strips the runtime from `<runtime>://<ID>`.
pub fn bare_id(id: &str) -> ContainerId {
    id.split_once("://").map_or(id, |(_, id)| id).into()
}

fn id(id: Option<&str>) -> Option<&str> {
    id.filter(|id| !id.is_empty())
}

/// The most common cases have a simpler text.
fn waiting_reason(reason: &str) -> &str {
    match reason {
        reasons::ERR_IMAGE_PULL => "image can't be pulled",
        reasons::IMAGE_PULL_BACK_OFF => "trying and failing to pull image",
        other => other,
    }
}

fn status_of<'p>(pod: &'p Pod, container: &str) -> Option<&'p ContainerStatus> {
    let status = pod.status.as_ref()?;
    let main_and_init = status.container_statuses.iter().chain(&status.init_container_statuses);
    let mut all = main_and_init.chain(&status.ephemeral_container_statuses).flatten();
    all.find(|status| status.name == container)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn found(status: &Value, previous: bool) -> Result<String, String> {
        let pod: Pod = serde_json::from_value(json!({
            "metadata": {"namespace": "default", "name": "web"},
            "status": {"containerStatuses": [status]},
        }))
        .unwrap();
        find_instance(&pod, "c", previous).map(str::to_owned).map_err(|error| error.to_string())
    }

    fn status(state: &Value, last: &Value, id: &str) -> Value {
        json!({
            "name": "c", "image": "i", "imageID": "", "ready": false, "restartCount": 0,
            "state": state, "lastState": last, "containerID": id,
        })
    }

    fn ended(id: &str) -> Value {
        json!({"terminated": {"exitCode": 1, "containerID": id}})
    }

    #[test]
    fn the_instance_is_the_one_a_stock_kubelet_shows() {
        let (none, running) = (json!({}), json!({"running": {}}));
        let waiting = |reason: &str| json!({"waiting": {"reason": reason}});
        let ok = |id: &str| Ok(format!("containerd://{id}"));
        let err = |text: &str| Err(format!("container \"c\" in pod \"web\" is {text}"));
        for (status, expected) in [
            (status(&running, &ended("containerd://a"), "containerd://b"), ok("b")),
            (status(&ended("containerd://b"), &ended("containerd://a"), "containerd://b"), ok("b")),
            (status(&ended(""), &ended("containerd://a"), ""), ok("a")),
            (status(&ended(""), &none, ""), err("terminated")),
            (status(&waiting("CrashLoopBackOff"), &ended("containerd://a"), "containerd://a"), ok("a")),
            (status(&waiting("CrashLoopBackOff"), &ended(""), ""), err("terminated")),
            (status(&waiting("ContainerCreating"), &none, ""), err("waiting to start: ContainerCreating")),
            (status(&waiting("ErrImagePull"), &none, ""), err("waiting to start: image can't be pulled")),
            (
                status(&waiting("ImagePullBackOff"), &none, ""),
                err("waiting to start: trying and failing to pull image"),
            ),
            (status(&none, &none, ""), err("waiting to start - no logs yet")),
            (
                json!({"name": "other", "image": "i", "imageID": "", "ready": true, "restartCount": 0}),
                err("not available"),
            ),
        ] {
            assert_eq!(found(&status, false), expected, "{status}");
        }
    }

    #[test]
    fn the_previous_instance_is_the_last_state() {
        let running = json!({"running": {}});
        let absent = Err("previous terminated container \"c\" in pod \"web\" not found".to_owned());
        let after = |last: &Value| found(&status(&running, last, "containerd://b"), true);
        assert_eq!(after(&ended("containerd://a")), Ok("containerd://a".to_owned()));
        assert_eq!(after(&ended("")), absent);
        assert_eq!(after(&json!({})), absent);
        assert_eq!(bare_id("containerd://a"), ContainerId::from("a"));
    }
}
