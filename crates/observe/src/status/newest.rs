//! Merges two statuses that each contain a part of a pod's history: the one that this daemon reported last, and the API server's.
//! Pure.

use k8s_openapi::api::core::v1::{ContainerStatus, PodStatus};

use hostlet_pod::has_ended;

/// The status to continue from. For a daemon that started without the API server, `own` knows what happened since, `api` what
/// earlier daemons saw; conditions that others write are newest in `api`.
pub(super) fn newest(own: &PodStatus, api: &PodStatus) -> PodStatus {
    let mut status = api.clone();
    status.container_statuses = containers(own.container_statuses.as_ref(), api.container_statuses.as_ref());
    status.init_container_statuses =
        containers(own.init_container_statuses.as_ref(), api.init_container_statuses.as_ref());
    status.ephemeral_container_statuses =
        containers(own.ephemeral_container_statuses.as_ref(), api.ephemeral_container_statuses.as_ref());
    if has_ended(own) && !has_ended(api) {
        status.phase.clone_from(&own.phase);
        status.reason.clone_from(&own.reason);
        status.message.clone_from(&own.message);
    }
    // The latest reporter knows when our own conditions changed last.
    for condition in status.conditions.iter_mut().flatten() {
        let reported = own.conditions.iter().flatten().find(|reported| reported.type_ == condition.type_);
        if let Some(reported) =
            reported.filter(|reported| reported.status != condition.status && is_generated(&reported.type_))
        {
            *condition = reported.clone();
        }
    }
    status
}

fn is_generated(condition: &str) -> bool {
    super::conditions::GENERATED.contains(&condition)
}

fn containers(
    own: Option<&Vec<ContainerStatus>>,
    api: Option<&Vec<ContainerStatus>>,
) -> Option<Vec<ContainerStatus>> {
    let (Some(own), Some(api)) = (own, api) else { return own.or(api).cloned() };
    let one = |own: &ContainerStatus| {
        let known = api.iter().find(|known| known.name == own.name);
        known.filter(|known| !knows_as_much(own, known)).unwrap_or(own).clone()
    };
    Some(own.iter().map(one).collect())
}

/// Whether this daemon's status of a container omits nothing: it has as many restarts, and knows whether it ran at all.
fn knows_as_much(own: &ContainerStatus, api: &ContainerStatus) -> bool {
    own.restart_count >= api.restart_count && (has_run(own) || !has_run(api))
}

fn has_run(status: &ContainerStatus) -> bool {
    let runs_or_ended = status.state.as_ref().is_some_and(|s| s.running.is_some() || s.terminated.is_some());
    runs_or_ended || status.last_state.as_ref().is_some_and(|last| last.terminated.is_some())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn status(restarts: i32, state: Value, gate: &str) -> PodStatus {
        let container = json!({"name": "c", "image": "i", "imageID": "", "ready": true, "restartCount": restarts, "state": state});
        let status = json!({"phase": "Running", "conditions": [{"type": "example.com/gate", "status": gate}],
            "containerStatuses": [container]});
        serde_json::from_value(status).unwrap()
    }

    fn restarts(status: &PodStatus) -> i32 {
        status.container_statuses.as_ref().unwrap()[0].restart_count
    }

    #[test]
    fn what_an_earlier_daemon_saw_and_what_happened_since_both_count() {
        let (running, waiting) = (json!({"running": {}}), json!({"waiting": {}}));
        let earlier = status(3, running.clone(), "True");
        assert_eq!(restarts(&newest(&status(0, waiting.clone(), "False"), &earlier)), 3);
        assert_eq!(restarts(&newest(&status(5, running.clone(), "False"), &earlier)), 5);
        let once = status(0, running, "True");
        assert_eq!(newest(&status(0, waiting, "False"), &once), once, "it ran: that must not be lost");
    }

    #[test]
    fn conditions_of_others_are_the_servers_and_an_end_stays() {
        let own =
            PodStatus { phase: Some("Failed".to_owned()), ..status(0, json!({"running": {}}), "False") };
        let next = newest(&own, &status(0, json!({"running": {}}), "True"));
        assert_eq!(next.phase.as_deref(), Some("Failed"));
        assert_eq!(next.conditions.unwrap()[0].status, "True");
    }
}
