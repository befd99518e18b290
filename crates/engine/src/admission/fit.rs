//! Whether a pod fits on the node next to the pods already admitted: resources, placement, host ports and taints, in
//! upstream's order and words (`GeneralPredicates` of the kubelet's admission). Pure.

use std::collections::HashSet;

use k8s_openapi::api::core::v1::{Pod, Taint};

use super::affinity;
use super::node::NodeView;
use super::tolerations::tolerates;
use hostlet_base::resources::{CPU, EPHEMERAL_STORAGE, MEMORY, PODS};
use hostlet_base::{Quantity, ResourceList, reasons};
use hostlet_pod::resources::requested_resources;
use hostlet_pod::view::PodView;
use hostlet_pod::{ContainerKind, PodContainer, Rejection, is_critical, is_static};

/// The resources that are checked first, in this order; all others follow by name. The first shortage is the reason for
/// rejection.
const FIRST_CHECKED: [&str; 4] = [PODS, CPU, MEMORY, EPHEMERAL_STORAGE];

/// The resources that a pod uses of the node: its requests, and one of the node's `pods`.
pub(super) fn demand(pod: &Pod) -> ResourceList {
    let mut demand = requested_resources(pod);
    demand.set(PODS, Quantity::count(1));
    demand
}

/// A resource of which too little is free. Amounts are in the units of [`in_units`](hostlet_base::resources::in_units).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Shortage {
    pub(super) resource: String,
    requested: i64,
    used: i64,
    capacity: i64,
}

impl Shortage {
    /// How much must be freed.
    pub(super) fn missing(&self) -> i64 {
        self.requested.saturating_sub(self.capacity.saturating_sub(self.used))
    }

    fn rejection(&self) -> Rejection {
        let Self { resource, requested, used, capacity } = self;
        let message = format!(
            "Node didn't have enough resource: {resource}, requested: {requested}, used: {used}, capacity: {capacity}"
        );
        Rejection::new(format!("{}{resource}", reasons::OUT_OF), message)
    }
}

/// Why a pod does not fit.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Unfit {
    /// Only for lack of these resources; preemption would help.
    Insufficient(Vec<Shortage>),
    /// Preemption would not help.
    Never {
        /// Why.
        rejection: Rejection,
        /// Whether the cause is the Node's labels or taints, which may change at any time.
        by_node: bool,
    },
}

impl Unfit {
    /// The rejection to report: the first shortage.
    pub(super) fn rejection(&self) -> Option<Rejection> {
        match self {
            Self::Insufficient(shortages) => shortages.first().map(Shortage::rejection),
            Self::Never { rejection, by_node: _ } => Some(rejection.clone()),
        }
    }
}

/// Checks whether `pod` fits on `node` next to `others`.
pub(super) fn fit(pod: &Pod, node: &NodeView, others: &[&Pod]) -> Result<(), Unfit> {
    let shortages = shortages(pod, node, others);
    let Some((other, by_node)) = misplaced(pod, node, others) else {
        return if shortages.is_empty() { Ok(()) } else { Err(Unfit::Insufficient(shortages)) };
    };
    // What a critical pod lacks could be preempted: the other reason is the one that stays.
    let first = shortages.first().filter(|_| !is_critical(pod));
    Err(Unfit::Never { rejection: first.map_or(other, Shortage::rejection), by_node })
}

fn shortages(pod: &Pod, node: &NodeView, others: &[&Pod]) -> Vec<Shortage> {
    let requested = demand(pod).only(|resource| node.counts(resource));
    let used = others.iter().fold(ResourceList::default(), |sum, other| sum.plus(demand(other)));
    let shortage = |resource: &str| {
        let (requested, used) = (requested.units(resource), used.units(resource));
        let capacity = node.allocatable.units(resource);
        let is_short = requested > 0 && requested > capacity.saturating_sub(used);
        is_short.then(|| Shortage { resource: resource.to_owned(), requested, used, capacity })
    };
    let first = FIRST_CHECKED.into_iter().filter(|resource| requested.contains(resource));
    let rest = requested.iter().map(|(resource, _)| resource);
    let rest = rest.filter(|resource| !FIRST_CHECKED.contains(resource));
    first.chain(rest).filter_map(shortage).collect()
}

/// Why a pod may not run on this node for reasons other than resources, and whether the cause is the Node's labels or taints.
fn misplaced(pod: &Pod, node: &NodeView, others: &[&Pod]) -> Option<(Rejection, bool)> {
    let spec = PodView::from(pod).spec;
    let failed = |predicate: &'static str, detail: &str, by_node| {
        let message = format!("Predicate {predicate} failed: {detail}");
        Some((Rejection::new(predicate, message), by_node))
    };
    if !affinity::matches(spec, &node.name, &node.labels) {
        return failed(reasons::NODE_AFFINITY, "node(s) didn't match Pod's node affinity/selector", true);
    }
    let taken: HashSet<HostPort> = others.iter().flat_map(|other| host_ports(other)).collect();
    if host_ports(pod).iter().any(|port| taken.iter().any(|other| port.conflicts(other))) {
        return failed(
            reasons::NODE_PORTS,
            "node(s) didn't have free ports for the requested pod ports",
            false,
        );
    }
    let tolerations = spec.tolerations.as_deref().unwrap_or_default();
    let is_untolerated = |taint: &Taint| {
        taint.effect == "NoExecute" && !tolerations.iter().any(|toleration| tolerates(toleration, taint))
    };
    if !is_static(pod) && node.taints.iter().any(is_untolerated) {
        return failed("TaintToleration", "node(s) had taints that the pod didn't tolerate", true);
    }
    None
}

/// A port on the host.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct HostPort {
    /// Empty for all addresses.
    ip: String,
    protocol: String,
    port: i32,
}

impl HostPort {
    fn conflicts(&self, other: &Self) -> bool {
        let overlap = self.ip.is_empty() || other.ip.is_empty() || self.ip == other.ip;
        self.port == other.port && self.protocol == other.protocol && overlap
    }
}

/// The ports of all containers that run as long as the pod.
fn host_ports(pod: &Pod) -> Vec<HostPort> {
    let spec = PodView::from(pod).spec;
    let inits = spec.init_containers.iter().flatten().map(PodContainer::init);
    let sidecars = inits.filter(|container| container.kind == ContainerKind::Sidecar).map(|it| it.spec);
    let ports = sidecars.chain(&spec.containers).flat_map(|container| container.ports.iter().flatten());
    let of_host = ports.filter_map(|port| {
        let ip = port.host_ip.clone().filter(|ip| ip != "0.0.0.0" && ip != "::").unwrap_or_default();
        let protocol = port.protocol.clone().unwrap_or_else(|| "TCP".to_owned());
        Some(HostPort { ip, protocol, port: port.host_port.filter(|port| *port > 0)? })
    });
    of_host.collect()
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;

    use serde_json::{Value, json};

    use super::*;
    use hostlet_base::CONFIG_SOURCE_ANNOTATION;
    use hostlet_base::testing::resource_list;

    fn pod(spec: Value) -> Pod {
        let annotations = json!({CONFIG_SOURCE_ANNOTATION: "api"});
        serde_json::from_value(json!({"metadata": {"name": "p", "annotations": annotations}, "spec": spec}))
            .unwrap()
    }

    fn requesting(requests: Value) -> Pod {
        pod(json!({"containers": [{"name": "c", "resources": {"requests": requests}}]}))
    }

    fn node() -> NodeView {
        let allocatable =
            resource_list([("cpu", "2"), ("memory", "1Gi"), ("ephemeral-storage", "1Gi"), ("pods", "3")]);
        NodeView { name: "n1".to_owned(), allocatable, ..NodeView::default() }
    }

    fn rejection(pod: &Pod, others: &[&Pod]) -> (Cow<'static, str>, String) {
        let rejection = fit(pod, &node(), others).unwrap_err().rejection().unwrap();
        (rejection.reason, rejection.message)
    }

    #[test]
    fn the_first_shortage_is_the_reason() {
        let one = requesting(json!({"cpu": "1500m", "memory": "100Mi"}));
        assert_eq!(fit(&one, &node(), &[]), Ok(()));
        let (reason, message) = rejection(&one, &[&one]);
        assert_eq!(reason, "OutOfcpu");
        assert_eq!(
            message,
            "Node didn't have enough resource: cpu, requested: 1500, used: 1500, capacity: 2000"
        );
        let none = requesting(json!({}));
        assert_eq!(rejection(&none, &[&none, &none, &none]).0, "OutOfpods");
        assert_eq!(rejection(&requesting(json!({"memory": "2Gi"})), &[]).0, "OutOfmemory");
        assert_eq!(
            rejection(&requesting(json!({"ephemeral-storage": "2Gi"})), &[]).0,
            "OutOfephemeral-storage"
        );
        let Err(Unfit::Insufficient(shortages)) = fit(&one, &node(), &[&one]) else { panic!("it lacks CPU") };
        assert_eq!(shortages[0].missing(), 1000);
    }

    /// As a stock kubelet 1.37.2 checks them.
    #[test]
    fn a_resource_of_any_name_is_counted_if_the_node_has_it_or_should() {
        let mut node = node();
        node.allocatable.set("example.com/dongle", Quantity::count(2));
        let rejection = |pod: &Pod, others: &[&Pod]| match fit(pod, &node, others) {
            Ok(()) => None,
            Err(unfit) => unfit.rejection().map(|rejection| rejection.message),
        };
        let one = requesting(json!({"example.com/dongle": "1"}));
        assert_eq!(rejection(&one, &[&one]), None);
        let lacking =
            "Node didn't have enough resource: example.com/dongle, requested: 1, used: 2, capacity: 2";
        assert_eq!(rejection(&one, &[&one, &one]).as_deref(), Some(lacking));
        let unfit = fit(&requesting(json!({"example.com/dongle": "3"})), &node, &[]).unwrap_err();
        assert_eq!(unfit.rejection().unwrap().reason, "OutOfexample.com/dongle");

        // Of the cluster.
        assert_eq!(rejection(&requesting(json!({"example.com/license": "9"})), &[]), None);
        // Kubernetes' own is there or is not.
        let huge = requesting(json!({"hugepages-2Mi": "4Mi"}));
        let lacking =
            "Node didn't have enough resource: hugepages-2Mi, requested: 4194304, used: 0, capacity: 0";
        assert_eq!(rejection(&huge, &[]).as_deref(), Some(lacking));
        let own = rejection(&requesting(json!({"kubernetes.io/x": "1"})), &[]).unwrap();
        assert!(own.contains("kubernetes.io/x, requested: 1"), "{own}");
    }

    #[test]
    fn resources_are_checked_in_one_order() {
        let mut node = node();
        node.allocatable = resource_list([("a.example.com/x", "0"), ("ephemeral-storage", "0")]);
        let all = ["hugepages-2Mi", "a.example.com/x", "memory", "ephemeral-storage", "cpu"];
        let greedy = requesting(all.map(|name| (name.to_owned(), json!("1"))).into_iter().collect());
        let Err(Unfit::Insufficient(shortages)) = fit(&greedy, &node, &[]) else {
            panic!("it lacks everything")
        };
        let order: Vec<&str> = shortages.iter().map(|shortage| shortage.resource.as_str()).collect();
        let expected = ["pods", "cpu", "memory", "ephemeral-storage", "a.example.com/x", "hugepages-2Mi"];
        assert_eq!(order, expected);
    }

    #[test]
    fn storage_that_is_not_isolated_can_not_be_requested() {
        let mut node = node();
        node.allocatable = node.allocatable.only(|name| name != EPHEMERAL_STORAGE);
        let rejection =
            |requests| fit(&requesting(requests), &node, &[]).err().and_then(|unfit| unfit.rejection());
        let lacking =
            "Node didn't have enough resource: ephemeral-storage, requested: 1048576, used: 0, capacity: 0";
        let storage = rejection(json!({"ephemeral-storage": "1Mi"})).unwrap();
        assert_eq!((&*storage.reason, &*storage.message), ("OutOfephemeral-storage", lacking));
        for requests in [json!({"ephemeral-storage": "0"}), json!({"cpu": "1"})] {
            assert_eq!(rejection(requests), None);
        }
    }

    #[test]
    fn a_pod_without_requests_fits_on_a_full_node() {
        let full = requesting(json!({"cpu": "2", "memory": "1Gi", "ephemeral-storage": "1Gi"}));
        assert_eq!(fit(&requesting(json!({})), &node(), &[&full]), Ok(()));
    }

    #[test]
    fn a_host_port_is_taken_once_per_address() {
        let port = |ip: &str, port: i32, protocol: &str| {
            let port = json!({"hostIP": ip, "hostPort": port, "containerPort": 1, "protocol": protocol});
            pod(json!({"containers": [{"name": "c", "ports": [port]}]}))
        };
        let taken = port("10.0.0.1", 80, "TCP");
        assert_eq!(rejection(&port("", 80, "TCP"), &[&taken]).0, "NodePorts");
        assert_eq!(rejection(&port("0.0.0.0", 80, "TCP"), &[&taken]).0, "NodePorts");
        let mut of_inits = port("", 80, "TCP");
        let spec = of_inits.spec.as_mut().unwrap();
        spec.init_containers = Some(std::mem::take(&mut spec.containers));
        assert_eq!(fit(&of_inits, &node(), &[&taken]), Ok(()), "an init container has ended by then");
        of_inits.spec.as_mut().unwrap().init_containers.as_mut().unwrap()[0].restart_policy =
            Some("Always".to_owned());
        assert_eq!(rejection(&of_inits, &[&taken]).0, "NodePorts");
        assert_eq!(rejection(&taken, &[&of_inits]).0, "NodePorts");
        for other in [
            port("10.0.0.2", 80, "TCP"),
            port("10.0.0.1", 80, "UDP"),
            port("", 81, "TCP"),
            port("", 0, "TCP"),
        ] {
            assert_eq!(fit(&other, &node(), &[&taken]), Ok(()));
        }
    }

    #[test]
    fn only_untolerated_no_execute_taints_count() {
        let taint = |effect: &str| Taint {
            key: "k".to_owned(),
            value: Some("v".to_owned()),
            effect: effect.to_owned(),
            ..Taint::default()
        };
        let tainted = |effect| NodeView { taints: vec![taint(effect)], ..node() };
        let plain = pod(json!({"containers": []}));
        assert_eq!(fit(&plain, &tainted("NoSchedule"), &[]), Ok(()));
        let rejection = fit(&plain, &tainted("NoExecute"), &[]).unwrap_err().rejection().unwrap();
        assert_eq!(
            rejection.message,
            "Predicate TaintToleration failed: node(s) had taints that the pod didn't tolerate"
        );
        for toleration in [
            json!({"operator": "Exists"}),
            json!({"key": "k", "operator": "Exists", "effect": "NoExecute"}),
            json!({"key": "k", "value": "v"}),
        ] {
            let tolerant = pod(json!({"containers": [], "tolerations": [toleration]}));
            assert_eq!(fit(&tolerant, &tainted("NoExecute"), &[]), Ok(()));
        }
        for toleration in
            [json!({"key": "k", "value": "w"}), json!({"operator": "Exists", "effect": "NoSchedule"})]
        {
            let other = pod(json!({"containers": [], "tolerations": [toleration]}));
            assert!(fit(&other, &tainted("NoExecute"), &[]).is_err());
        }
    }

    #[test]
    fn preemption_does_not_help_a_misplaced_pod() {
        let mut misplaced = requesting(json!({"cpu": "9"}));
        misplaced.spec.as_mut().unwrap().node_selector = Some([("a".to_owned(), "b".to_owned())].into());
        let unfit = fit(&misplaced, &node(), &[]).unwrap_err();
        assert!(
            matches!(&unfit, Unfit::Never { rejection, .. } if rejection.reason == "OutOfcpu"),
            "{unfit:?}"
        );
        misplaced.spec.as_mut().unwrap().priority = Some(2_000_000_000);
        assert_eq!(rejection(&misplaced, &[]).0, "NodeAffinity", "what is short could be preempted for it");
        misplaced.spec.as_mut().unwrap().priority = None;
        misplaced.spec.as_mut().unwrap().containers.clear();
        assert_eq!(
            rejection(&misplaced, &[]).1,
            "Predicate NodeAffinity failed: node(s) didn't match Pod's node affinity/selector"
        );
    }
}
