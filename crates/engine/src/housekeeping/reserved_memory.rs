//! Keeps a part of the memory that pods request from pods of worse QoS classes (`qosReserved`, upstream's feature gate `QOSReserved`): the
//! limits of the classes' cgroups. Sets none itself.

use std::sync::Arc;

use hostlet_base::QosClass;
use hostlet_base::node::OwnNode;
use hostlet_base::resources::MEMORY;
use hostlet_host::cgroup::ClassResources;
use hostlet_pod::AdmittedPod;
use hostlet_pod::resources::pod_memory_request;
use tokio::sync::watch;

/// How much is kept.
#[derive(Clone, Debug)]
pub(crate) struct ReservedMemory {
    /// The percentage of the requests.
    pub percent: u8,
    /// The node, whose memory may change.
    pub node: watch::Receiver<OwnNode>,
}

impl ReservedMemory {
    /// Adds the limits of the classes. As upstream, what reserves everything sets no limit: the class would be killed.
    pub(super) fn limit(&self, resources: &mut ClassResources, active: &[Arc<AdmittedPod>]) {
        let reserved = |qos| {
            let pods = active.iter().filter(|pod| pod.qos == qos);
            let requests = pods.fold(0_i64, |sum, pod| sum.saturating_add(pod_memory_request(pod)));
            i64::try_from(i128::from(requests) * i128::from(self.percent) / 100).unwrap_or(i64::MAX)
        };
        let all = self.node.borrow().unreserved.units(MEMORY);
        let burstable = all.saturating_sub(reserved(QosClass::Guaranteed));
        let best_effort = burstable.saturating_sub(reserved(QosClass::Burstable));
        resources.burstable_memory_limit = Some(burstable).filter(|limit| *limit > 0);
        resources.best_effort_memory_limit = Some(best_effort).filter(|limit| *limit > 0);
    }
}

#[cfg(test)]
mod tests {
    use hostlet_base::testing::resource_list;

    use super::super::testing::pod;
    use super::*;

    #[test]
    fn worse_classes_cannot_use_what_better_ones_request() {
        let active = [pod("g", "200Mi", "200Mi"), pod("b1", "100Mi", "1Gi"), pod("b2", "300Mi", "1Gi")];
        let limits = |percent, memory: &str| {
            let node = OwnNode { unreserved: resource_list([("memory", memory)]), ..OwnNode::default() };
            let mut resources = ClassResources::default();
            ReservedMemory { percent, node: watch::channel(node).1 }.limit(&mut resources, &active);
            [resources.burstable_memory_limit, resources.best_effort_memory_limit]
                .map(|limit| limit.map(|bytes| bytes >> 20))
        };
        assert_eq!(limits(50, "1000Mi"), [Some(900), Some(700)]);
        assert_eq!(limits(0, "1000Mi"), [Some(1000), Some(1000)]);
        assert_eq!(limits(100, "600Mi"), [Some(400), None], "everything is reserved");
        assert_eq!(limits(100, "100Mi"), [None, None]);
    }
}
