//! Which claims ask a node to grow their volumes.

use serde_json::{Value, json};

use super::*;

const GROWN: NodeSize = NodeSize { known: Some(10 << 30), has_failed: false };

fn claim(modes: &str, asked: &str, status: Value) -> Arc<PersistentVolumeClaim> {
    let spec = json!({"accessModes": [modes], "resources": {"requests": {"storage": asked}}});
    Arc::new(serde_json::from_value(json!({"spec": spec, "status": status})).unwrap())
}

fn of(claim: &Arc<PersistentVolumeClaim>, capacity: &str, at: Moment, size: NodeSize) -> Plan {
    plan(claim.clone(), Some(&ApiQuantity(capacity.to_owned())), false, at, size)
}

/// The size and protocol with which the driver is called.
fn grows(plan: Plan) -> (i64, Protocol) {
    match plan {
        Plan::Grow(growth) => (growth.size >> 30, growth.protocol),
        other => panic!("{other:?}"),
    }
}

fn pending(resize: &str) -> Value {
    json!({
        "capacity": {"storage": "10Gi"}, "allocatedResources": {"storage": "20Gi"},
        "allocatedResourceStatuses": {"storage": resize},
    })
}

#[test]
fn a_volume_grows_once_the_controller_has_done_its_part() {
    let both = [(Moment::Mounting, NodeSize::default()), (Moment::InUse, GROWN)];
    for (at, size) in both {
        for resize in [PENDING, IN_PROGRESS] {
            let plan = of(&claim("ReadWriteOnce", "20Gi", pending(resize)), "20Gi", at, size);
            assert_eq!(grows(plan), (20, Protocol::Recovery { gives_up: false }));
        }
        for other in
            ["ControllerResizeInProgress", "NodeResizeInfeasible", "ControllerResizeInfeasible", "New"]
        {
            let plan = of(&claim("ReadWriteOnce", "20Gi", pending(other)), "20Gi", at, size);
            assert_eq!(plan, Plan::Nothing(None), "{other}");
        }
        // Its PersistentVolume has the old size.
        let plan = of(&claim("ReadWriteOnce", "20Gi", pending(PENDING)), "10Gi", at, size);
        assert_eq!(plan, Plan::Nothing(Some(10 << 30)));
        let status = json!({"capacity": {"storage": "10Gi"}});
        let plan = of(&claim("ReadWriteOnce", "20Gi", status), "20Gi", at, size);
        assert_eq!(grows(plan), (20, Protocol::Legacy), "an older resizer");
    }
}

#[test]
fn a_failure_ends_an_expansion_that_the_user_does_not_ask_for_any_more() {
    let failed = NodeSize { known: None, has_failed: true };
    let plan = |asked, size| {
        grows(of(&claim("ReadWriteOnce", asked, pending(IN_PROGRESS)), "20Gi", Moment::Mounting, size))
    };
    assert_eq!(plan("15Gi", failed), (20, Protocol::Recovery { gives_up: true }));
    assert_eq!(plan("20Gi", failed), (20, Protocol::Recovery { gives_up: false }));
    assert_eq!(plan("15Gi", NodeSize::default()), (20, Protocol::Recovery { gives_up: false }));
}

#[test]
fn each_node_grows_a_volume_that_several_use() {
    let done = json!({"capacity": {"storage": "20Gi"}, "allocatedResources": {"storage": "20Gi"}});
    let shared = claim("ReadWriteMany", "20Gi", done.clone());
    assert_eq!(grows(of(&shared, "20Gi", Moment::InUse, GROWN)), (20, Protocol::Shared));
    assert_eq!(
        of(&shared, "20Gi", Moment::Mounting, NodeSize::default()),
        Plan::Nothing(Some(20 << 30)),
        "as upstream, its driver mounts it with its size"
    );
    let single = claim("ReadWriteOnce", "20Gi", done.clone());
    assert_eq!(of(&single, "20Gi", Moment::InUse, GROWN), Plan::Nothing(Some(20 << 30)));
    let mut annotated = PersistentVolumeClaim::clone(&shared);
    annotated.metadata.annotations = Some([(NOT_REQUIRED.to_owned(), "true".to_owned())].into());
    assert_eq!(of(&Arc::new(annotated), "20Gi", Moment::InUse, GROWN), Plan::Nothing(Some(20 << 30)));
}

#[test]
fn the_first_look_at_a_volume_in_use_takes_the_claims_size() {
    let done = json!({"capacity": {"storage": "20Gi"}});
    let same = claim("ReadWriteOnce", "20Gi", done);
    assert_eq!(of(&same, "20Gi", Moment::InUse, NodeSize::default()), Plan::Nothing(Some(20 << 30)));
    let without = claim("ReadWriteOnce", "20Gi", json!({}));
    assert_eq!(of(&without, "20Gi", Moment::InUse, NodeSize::default()), Plan::Nothing(Some(0)));
    for damaged in ["", "x", "10Zi"] {
        assert_eq!(of(&same, damaged, Moment::InUse, GROWN), Plan::Nothing(None), "{damaged}");
    }
    assert_eq!(plan(same, None, false, Moment::InUse, GROWN), Plan::Nothing(None));
}

#[test]
fn what_is_only_read_does_not_grow() {
    let claim = claim("ReadWriteOnce", "20Gi", pending(PENDING));
    let of = |capacity: &str| {
        let capacity = ApiQuantity(capacity.to_owned());
        plan(claim.clone(), Some(&capacity), true, Moment::Mounting, NodeSize::default())
    };
    assert_eq!(of("20Gi"), Plan::ReadOnly);
    assert_eq!(of("10Gi"), Plan::Nothing(Some(10 << 30)));
}
