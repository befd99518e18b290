//! CPUs for a pod with resources of its own, divided among its containers (KEP-5526).

use std::collections::BTreeMap;

use hostlet_pod::view::PodView;
use k8s_openapi::api::core::v1::Pod;

use super::demand::{check_shared, container_cpus, pod_cpus};
use super::grants::Cpus;
use crate::containers::{containers, init_containers, is_sidecar, main_containers};
use crate::error::GrantError;
use crate::machine::CpuSet;
use crate::topology::Hint;

impl Cpus {
    /// Grants a pod its CPUs, and each of its containers some of them. What it has, it keeps: upstream grants them a second time after a
    /// restart (kubernetes/kubernetes#140989). After an error the value is unusable.
    pub fn allocate_pod(&mut self, pod: &Pod, hint: Hint) -> Result<(), GrantError> {
        let requested = pod_cpus(pod, self.policy.pod_level);
        let uid = PodView::from(pod).uid;
        if requested == 0 || self.state.pods.contains_key(uid) {
            return Ok(());
        }
        check_shared(pod)?;
        self.policy.check_cores(&self.state.shared, requested)?;
        let all = self.take(requested, hint.nodes, &CpuSet::new())?;
        self.state.pods.insert(uid.to_owned(), all.clone());
        let (own, shared) = self.divide(pod, &all)?;
        for container in containers(pod) {
            let cpus = own.get(&container.name).unwrap_or(&shared);
            self.state.set(uid, &container.name, cpus.clone());
        }
        Ok(())
    }

    /// The CPUs of containers that do not use the pod's shared ones, and these.
    fn divide(&self, pod: &Pod, all: &CpuSet) -> Result<(BTreeMap<String, CpuSet>, CpuSet), GrantError> {
        let mut own = BTreeMap::new();
        let mut left = all.clone();
        for container in init_containers(pod) {
            let requested = container_cpus(pod, container, self.policy.pod_level);
            // An init container that ends may use all that sidecars before it do not have.
            let cpus = match requested {
                0 if is_sidecar(container) => continue,
                0 => left.clone(),
                _ => self.policy.take(&left, requested)?,
            };
            if is_sidecar(container) {
                left = left.difference(&cpus);
            }
            own.insert(container.name.clone(), cpus);
        }
        for container in main_containers(pod) {
            let requested = container_cpus(pod, container, self.policy.pod_level);
            if requested > 0 {
                let cpus = self.policy.take(&left, requested)?;
                left = left.difference(&cpus);
                own.insert(container.name.clone(), cpus);
            }
        }
        Ok((own, left))
    }
}
