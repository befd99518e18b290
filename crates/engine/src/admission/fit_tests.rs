//! Pods and a node: whether they fit, and the first reason if not.

use std::borrow::Cow;

use serde_json::{Value, json};

use super::*;
use hostlet_base::CONFIG_SOURCE_ANNOTATION;
use hostlet_base::testing::resource_list;
use hostlet_resources::NodeResources;

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
    NodeView { name: "n1".to_owned(), resources: NodeResources::new(allocatable), ..NodeView::default() }
}

fn fit(pod: &Pod, node: &NodeView, others: &[&Pod]) -> Result<(), Unfit> {
    let allocations: Vec<Allocation> = others.iter().map(|other| Allocation::of(other)).collect();
    let others = others.iter().zip(&allocations);
    let allocated: Vec<_> = others.map(|(pod, allocation)| AllocatedPod { pod, allocation }).collect();
    super::fit(pod, node, &allocated).map(drop)
}

fn rejection(pod: &Pod, others: &[&Pod]) -> (Cow<'static, str>, String) {
    let rejection = fit(pod, &node(), others).unwrap_err().rejection().unwrap();
    (rejection.reason, rejection.message)
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
    for other in
        [port("10.0.0.2", 80, "TCP"), port("10.0.0.1", 80, "UDP"), port("", 81, "TCP"), port("", 0, "TCP")]
    {
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
    assert!(matches!(&unfit, Unfit::Never { rejection, .. } if rejection.reason == "OutOfcpu"), "{unfit:?}");
    misplaced.spec.as_mut().unwrap().priority = Some(2_000_000_000);
    assert_eq!(rejection(&misplaced, &[]).0, "NodeAffinity", "what is short could be preempted for it");
    misplaced.spec.as_mut().unwrap().priority = None;
    misplaced.spec.as_mut().unwrap().containers.clear();
    assert_eq!(
        rejection(&misplaced, &[]).1,
        "Predicate NodeAffinity failed: node(s) didn't match Pod's node affinity/selector"
    );
}
