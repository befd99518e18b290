//! Whether a terminated container is restarted (Kubernetes docs, "Pod Lifecycle", container restart policy and rules; KEP-5307).
//! Plans and statuses share this decision.

use k8s_openapi::api::core::v1::{Container, ContainerRestartRule, Pod, PodSpec};

/// Action of a rule that restarts its container.
const RESTART: &str = "Restart";
/// Action of a rule that restarts all containers of the pod (KEP-5532).
const RESTART_ALL: &str = "RestartAllContainers";

/// `restartPolicy` of a pod or of one of its containers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RestartPolicy {
    /// Restart after any exit.
    Always,
    /// Restart unless the exit code is 0.
    OnFailure,
    /// Leave exited containers as they are.
    Never,
}

impl RestartPolicy {
    /// The policy of a pod; `Always` if unset.
    pub fn of(pod: &Pod) -> Self {
        Self::parse(pod.spec.as_ref().and_then(|spec| spec.restart_policy.as_deref()))
    }

    /// The policy of a container: its own, as a sidecar has, or its pod's.
    pub fn of_container(spec: &PodSpec, container: &Container) -> Self {
        Self::parse(container.restart_policy.as_deref().or(spec.restart_policy.as_deref()))
    }

    fn parse(policy: Option<&str>) -> Self {
        match policy {
            Some("Never") => Self::Never,
            Some("OnFailure") => Self::OnFailure,
            Some(_) | None => Self::Always,
        }
    }

    /// Whether a container that terminated with this exit code is restarted.
    pub fn restarts(self, exit_code: i32) -> bool {
        match self {
            Self::Always => true,
            Self::OnFailure => exit_code != 0,
            Self::Never => false,
        }
    }
}

/// Whether a container that terminated with this exit code is restarted: by the first of its rules that matches, else by its own
/// policy, else by its pod's.
pub fn restarts_after(spec: &PodSpec, container: &Container, exit_code: i32) -> bool {
    match rule_for(container, exit_code).map(|rule| rule.action.as_str()) {
        Some(RESTART | RESTART_ALL) => true,
        Some(_) | None => RestartPolicy::of_container(spec, container).restarts(exit_code),
    }
}

/// Whether all containers of the pod have to be restarted because this one terminated with this exit code.
pub fn demands_restart_of_all(container: &Container, exit_code: i32) -> bool {
    rule_for(container, exit_code).is_some_and(|rule| rule.action == RESTART_ALL)
}

/// Whether an exit of one of the pod's containers can demand that.
pub fn may_restart_all(spec: &PodSpec) -> bool {
    let containers = spec.init_containers.iter().flatten().chain(&spec.containers);
    let mut rules = containers.flat_map(|container| container.restart_policy_rules.iter().flatten());
    rules.any(|rule| rule.action == RESTART_ALL)
}

/// The first rule that matches.
fn rule_for(container: &Container, exit_code: i32) -> Option<&ContainerRestartRule> {
    let matches = |rule: &&ContainerRestartRule| {
        let Some(codes) = &rule.exit_codes else { return false };
        let is_listed = codes.values.iter().flatten().any(|code| *code == exit_code);
        match codes.operator.as_str() {
            "In" => is_listed,
            "NotIn" => !is_listed,
            _ => false,
        }
    };
    container.restart_policy_rules.iter().flatten().find(matches)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::testing;

    #[test]
    fn the_first_matching_rule_wins_over_the_policy() {
        let rules = json!([
            {"action": "Restart", "exitCodes": {"operator": "In", "values": [42, 43]}},
            {"action": "RestartAllContainers", "exitCodes": {"operator": "In", "values": [43, 44]}},
            {"action": "Restart", "exitCodes": {"operator": "NotIn", "values": [0, 1, 44]}},
        ]);
        let with = |policy: &str| -> Container {
            let value = json!({"name": "c", "restartPolicy": policy, "restartPolicyRules": rules});
            serde_json::from_value(value).unwrap()
        };
        let pod = testing::pod("p", "u", "Always", &["c"]);
        let spec = pod.spec.as_ref().unwrap();
        let restarts = |policy, code| restarts_after(spec, &with(policy), code);
        for (code, expected) in [(42, true), (43, true), (44, true), (7, true), (0, false), (1, false)] {
            assert_eq!(restarts("Never", code), expected, "{code}");
        }
        assert!(restarts("OnFailure", 1) && !restarts("OnFailure", 0) && restarts("Always", 0));
        let all = |code| demands_restart_of_all(&with("Never"), code);
        assert_eq!([42, 43, 44, 7, 0].map(all), [false, false, true, false, false]);
        assert!(!may_restart_all(spec));
        let mut with_rule = spec.clone();
        with_rule.init_containers = Some(vec![with("Never")]);
        assert!(may_restart_all(&with_rule));
    }

    #[test]
    fn the_containers_policy_wins_and_the_default_is_always() {
        let plain = Container::default();
        let sidecar = Container { restart_policy: Some("Always".into()), ..Container::default() };
        for (policy, on_success, on_failure) in
            [("", true, true), ("Always", true, true), ("OnFailure", false, true), ("Never", false, false)]
        {
            let pod = testing::pod("p", "u", policy, &["c"]);
            let spec = pod.spec.as_ref().unwrap();
            let restarts = |container, code| RestartPolicy::of_container(spec, container).restarts(code);
            assert_eq!(restarts(&plain, 0), on_success);
            assert_eq!(restarts(&plain, 1), on_failure);
            assert!(restarts(&sidecar, 0));
            assert_eq!(RestartPolicy::of(&pod), RestartPolicy::of_container(spec, &plain));
        }
    }
}
