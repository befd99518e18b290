//! Whether an ended container is started again (Kubernetes docs, "Pod Lifecycle", container restart policy).

use k8s_openapi::api::core::v1::Container;

use crate::pod::view::PodView;

/// Whether a container of this pod that ended with this code is started again. A container's own policy (that of a
/// sidecar) wins over its pod's; the default is `Always`.
pub(super) fn restarts(pod: PodView<'_>, container: &Container, exit_code: i32) -> bool {
    match container.restart_policy.as_deref().or(pod.spec.restart_policy.as_deref()) {
        Some("Never") => false,
        Some("OnFailure") => exit_code != 0,
        _ => true,
    }
}

/// Whether an init container is a sidecar: it runs beside the regular ones.
pub(super) fn is_sidecar(container: &Container) -> bool {
    container.restart_policy.as_deref() == Some("Always")
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
            assert_eq!(restarts((&pod).into(), &plain, 0), on_success);
            assert_eq!(restarts((&pod).into(), &plain, 1), on_failure);
            assert!(restarts((&pod).into(), &sidecar, 0));
        }
    }
}
