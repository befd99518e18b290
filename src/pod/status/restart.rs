//! Whether an ended container is started again (Kubernetes docs, "Pod Lifecycle", container restart policy).

use k8s_openapi::api::core::v1::Container;

use crate::pod::view::PodView;

/// Whether a container that ended with this code is started again. A container's own policy (that of a sidecar) wins over
/// its pod's; the default is `Always`.
pub fn will_restart(pod_policy: Option<&str>, container: &Container, exit_code: i32) -> bool {
    match container.restart_policy.as_deref().or(pod_policy) {
        Some("Never") => false,
        Some("OnFailure") => exit_code != 0,
        _ => true,
    }
}

/// The same, of a container of this pod.
pub(super) fn restarts(pod: PodView<'_>, container: &Container, exit_code: i32) -> bool {
    will_restart(pod.spec.restart_policy.as_deref(), container, exit_code)
}

/// Whether an init container is a sidecar: it runs beside the regular ones.
pub(super) fn is_sidecar(container: &Container) -> bool {
    container.restart_policy.as_deref() == Some("Always")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_containers_policy_wins_and_the_default_is_always() {
        let plain = Container::default();
        let sidecar = Container { restart_policy: Some("Always".into()), ..Container::default() };
        for (policy, on_success, on_failure) in [
            (None, true, true),
            (Some("Always"), true, true),
            (Some("OnFailure"), false, true),
            (Some("Never"), false, false),
        ] {
            assert_eq!(will_restart(policy, &plain, 0), on_success);
            assert_eq!(will_restart(policy, &plain, 1), on_failure);
            assert!(will_restart(policy, &sidecar, 0));
        }
    }
}
