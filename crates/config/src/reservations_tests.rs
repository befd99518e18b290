//! Reservations: what is a configuration, and what follows from it.

use hostlet_base::testing::resource_list;
use serde_json::{Value, json};

use super::*;
use crate::defaults::{Membership, set_defaults};

fn kubelet(set: Value) -> KubeletConfiguration {
    let mut kc: KubeletConfiguration = serde_json::from_value(set).unwrap();
    set_defaults(&mut kc, Membership::Alone);
    kc
}

fn found(set: Value) -> Vec<String> {
    breaches(&kubelet(set)).into_iter().map(|(path, message)| format!("{path}: {message}")).collect()
}

fn enforcing(words: &[&str]) -> Value {
    json!({
        "enforceNodeAllocatable": words,
        "systemReserved": {"cpu": "100m", "memory": "100Mi", "pid": "1000"}, "systemReservedCgroup": "/system",
        "kubeReserved": {"cpu": "200m"}, "kubeReservedCgroup": "kube-reserved",
    })
}

#[test]
fn enforced_reservations_have_their_cgroups_and_amounts() {
    let of = |words: &[&str]| {
        assert_eq!(found(enforcing(words)), Vec::<String>::new());
        let kc = kubelet(enforcing(words));
        (limits_pods(&kc), enforced_reservations(&kc))
    };
    let system = EnforcedReservation {
        daemons: Daemons::System,
        is_compressible: false,
        cgroup: "/system".to_owned(),
        resources: resource_list([("cpu", "100m"), ("memory", "100Mi"), ("pid", "1000")]),
    };
    let kube = EnforcedReservation {
        daemons: Daemons::Kube,
        is_compressible: true,
        cgroup: "kube-reserved".to_owned(),
        resources: resource_list([("cpu", "200m")]),
    };
    let words = ["kube-reserved-compressible", "pods", "system-reserved"];
    assert_eq!(of(&words), (true, vec![system.clone(), kube.clone()]), "the system comes first");
    assert_eq!([system.word(), kube.word()], ["system-reserved", "kube-reserved-compressible"]);
    for (name, enforced) in Enforced::ALL {
        let words: Vec<&str> =
            enforced_reservations(&kubelet(enforcing(&[name]))).iter().map(|r| r.word()).collect();
        let is_of_daemons = !matches!(enforced, Enforced::Nothing | Enforced::Pods);
        assert_eq!(words, if is_of_daemons { vec![name] } else { Vec::new() });
    }
    assert_eq!(of(&["none"]), (false, Vec::new()));
    assert_eq!(of(&[]), (false, Vec::new()));
    assert!(limits_pods(&kubelet(json!({}))), "the default");
}

#[test]
fn what_a_reservation_lacks_is_named() {
    let mut set = enforcing(&["pods", "kube-reserved"]);
    for (field, value, breach) in [
        (
            "kubeReservedCgroup",
            json!(""),
            "enforceNodeAllocatable: \"kube-reserved\" needs kubeReservedCgroup",
        ),
        (
            "kubeReservedCgroup",
            json!("//"),
            "enforceNodeAllocatable: \"kube-reserved\" needs a kubeReservedCgroup other than the root, in which pods are, too",
        ),
        (
            "kubeReserved",
            json!({}),
            "enforceNodeAllocatable: \"kube-reserved\" needs kubeReserved: without amounts there is nothing to enforce",
        ),
        (
            "enforceNodeAllocatable",
            json!(["kube-reserved", "kube-reserved-compressible"]),
            "enforceNodeAllocatable: \"kube-reserved\" and \"kube-reserved-compressible\" exclude each other",
        ),
        (
            "enforceNodeAllocatable",
            json!(["pods", "pods"]),
            "enforceNodeAllocatable: \"pods\" is listed twice",
        ),
        (
            "reservedSystemCPUs",
            json!("0-1"),
            "reservedSystemCPUs: cannot be combined with systemReservedCgroup or kubeReservedCgroup",
        ),
        (
            "qosReserved",
            json!({"memory": "101%"}),
            "qosReserved.memory: \"101%\" must be a percentage from 0% to 100%",
        ),
        ("qosReserved", json!({"cpu": "5%"}), "qosReserved.cpu: must be memory"),
    ] {
        let before = set[field].take();
        set[field] = value;
        assert_eq!(found(set.clone()), [breach]);
        set[field] = before;
    }
    let unknown = found(enforcing(&["node"]));
    assert!(unknown[0].ends_with("must be one of pods, system-reserved, system-reserved-compressible, kube-reserved, kube-reserved-compressible, none"), "{unknown:?}");
    set["cgroupsPerQOS"] = json!(false);
    assert_eq!(found(set).len(), 2, "each of the two needs it");
}

#[test]
fn memory_of_classes_is_reserved_with_the_feature_gate_alone() {
    let of = |text: &str, gate: bool| {
        let kc = kubelet(json!({"qosReserved": {"memory": text}, "featureGates": {"QOSReserved": gate}}));
        (reserved_memory_percent(&kc), idle(&kc).is_some())
    };
    assert_eq!(of("50%", true), (Some(50), false));
    assert_eq!(of("0%", true), (Some(0), false));
    assert_eq!(of("50%", false), (None, true));
    for text in ["50", "-1%", "101%", "%", "1.5%"] {
        assert_eq!(of(text, true).0, None, "{text}");
    }
    assert_eq!(idle(&kubelet(json!({}))), None);
}
