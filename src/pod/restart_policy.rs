//! Whether a terminated container is restarted (Kubernetes docs, "Pod Lifecycle", container restart policy). Plans and
//! statuses share this decision.

use k8s_openapi::api::core::v1::{Container, Pod, PodSpec};

/// `restartPolicy` of a pod or of one of its containers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RestartPolicy {
    /// Always restart.
    Always,
    /// Restart unless the exit code is 0.
    OnFailure,
    /// Never restart.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pod::testing;

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
