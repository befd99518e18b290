//! Which containers of a running pod need what they were granted no more. Pure.

use hostlet_pod::{may_restart_all, restarts_after};
use k8s_openapi::api::core::v1::{Pod, PodStatus};

/// The containers that ended for good while their pod runs. Not init containers: they run again in a new sandbox.
pub(super) fn ended<'a>(pod: &'a Pod, status: &'a PodStatus) -> impl Iterator<Item = &'a str> {
    let spec = pod.spec.as_ref().filter(|spec| !may_restart_all(spec));
    let statuses = status.container_statuses.as_deref().unwrap_or_default();
    spec.into_iter()
        .flat_map(|spec| spec.containers.iter().map(move |container| (spec, container)))
        .filter_map(move |(spec, container)| {
            let found = statuses.iter().find(|status| status.name == container.name)?;
            let terminated = found.state.as_ref()?.terminated.as_ref()?;
            (!restarts_after(spec, container, terminated.exit_code)).then_some(container.name.as_str())
        })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn ended_of(policy: &str, states: Value) -> Vec<String> {
        let containers = json!([{"name": "a"}, {"name": "b"}]);
        let spec =
            json!({"restartPolicy": policy, "initContainers": [{"name": "i"}], "containers": containers});
        let pod: Pod = serde_json::from_value(json!({"spec": spec})).unwrap();
        let statuses: Vec<Value> = states.as_object().unwrap().iter().map(|(name, state)| {
            json!({"name": name, "state": state, "image": "", "imageID": "", "ready": false, "restartCount": 0})
        }).collect();
        let status: PodStatus = serde_json::from_value(json!({"containerStatuses": statuses})).unwrap();
        ended(&pod, &status).map(str::to_owned).collect()
    }

    #[test]
    fn containers_have_ended_if_their_policy_does_not_restart_them() {
        let exit = |code: i32| json!({"terminated": {"exitCode": code}});
        let running = json!({"running": {}});
        assert_eq!(ended_of("Never", json!({"a": exit(1), "b": running})), ["a"]);
        assert_eq!(ended_of("OnFailure", json!({"a": exit(0), "b": exit(1)})), ["a"]);
        assert!(ended_of("Always", json!({"a": exit(0), "b": exit(1)})).is_empty());
        assert!(ended_of("Never", json!({"i": exit(0)})).is_empty(), "it runs again in a new sandbox");
    }
}
