//! Which terminated containers of a pod are restarted, as far as its status depends on it.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::Container;

use hostlet_pod::{AdmittedPod, restarts_after};

/// Decides this for the containers of one pod.
#[derive(Clone, Copy)]
pub(super) struct Restarts<'a> {
    pub(super) pod: &'a AdmittedPod,
    /// Names of the containers that are being started: one that was stopped to be replaced restarts whatever its policy
    /// says.
    pub(super) starting: &'a BTreeSet<String>,
}

impl Restarts<'_> {
    /// Whether a container that terminated with this exit code is restarted.
    pub(super) fn after(self, container: &Container, exit_code: i32) -> bool {
        self.is_replaced(container) || self.by_policy(container, exit_code)
    }

    /// Whether it is being started now.
    pub(super) fn is_replaced(self, container: &Container) -> bool {
        self.starting.contains(&container.name)
    }

    /// Whether its restart policy alone restarts it.
    pub(super) fn by_policy(self, container: &Container, exit_code: i32) -> bool {
        restarts_after(self.pod.spec(), container, exit_code)
    }
}
