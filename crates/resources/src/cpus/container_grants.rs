//! CPUs for one container.

use hostlet_pod::view::PodView;
use k8s_openapi::api::core::v1::{Container, Pod};

use super::demand::container_cpus;
use super::grants::Cpus;
use crate::containers::ends_first;
use crate::error::GrantError;
use crate::machine::{CpuSet, Level, NumaMask};
use crate::topology::Hint;

impl Cpus {
    /// Grants a container its CPUs, if it has some for itself: first of the hinted nodes, then of any. What it has, it keeps. After an
    /// error the value is unusable.
    pub fn allocate(&mut self, pod: &Pod, container: &Container, hint: Hint) -> Result<(), GrantError> {
        let requested = container_cpus(pod, container, self.policy.pod_level);
        if requested == 0 || self.ignores(pod) {
            return Ok(());
        }
        let uid = PodView::from(pod).uid;
        let cpus = match self.state.container(uid, &container.name) {
            Some(own) => own.clone(),
            None => {
                self.policy.check_cores(&self.state.shared, requested)?;
                self.take(requested, hint.nodes, &self.reusable(uid))?
            }
        };
        self.set_reusable(pod, container, &cpus);
        self.state.set(uid, &container.name, cpus);
        Ok(())
    }

    /// Takes free and reusable CPUs. They are no longer shared.
    pub(super) fn take(
        &mut self,
        requested: usize,
        nodes: Option<NumaMask>,
        reusable: &CpuSet,
    ) -> Result<CpuSet, GrantError> {
        let available = self.free().union(reusable);
        let mut taken = CpuSet::new();
        if let Some(nodes) = nodes {
            let near = self.near(nodes, &available);
            taken = self.policy.take(&near, requested.min(near.len()))?;
        }
        let rest = self.policy.take(&available.difference(&taken), requested - taken.len())?;
        taken = taken.union(&rest);
        self.state.shared = self.state.shared.difference(&taken);
        Ok(taken)
    }

    /// The CPUs of nodes, or of their sockets if these are to be used as a whole.
    fn near(&self, nodes: NumaMask, available: &CpuSet) -> CpuSet {
        if self.policy.options.align_by_socket {
            self.policy.machine.within(available, Level::Socket, &self.policy.sockets_of(nodes))
        } else {
            self.policy.machine.within(available, Level::Node, &nodes.nodes().collect())
        }
    }

    /// What an init container that ends has can be used by later containers of its pod, once.
    fn set_reusable(&mut self, pod: &Pod, container: &Container, cpus: &CpuSet) {
        let uid = PodView::from(pod).uid;
        let before = self.reusable(uid);
        let reusable =
            if ends_first(pod, &container.name) { before.union(cpus) } else { before.difference(cpus) };
        self.reusable = Some((uid.to_owned(), reusable));
    }
}
