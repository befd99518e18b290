//! The checkpoint's format, against what upstream's own code writes.

use proptest::prelude::*;

use super::*;

/// Written by upstream's types and its checksum.
const UPSTREAM: [&str; 3] = [
    r#"{"Data":{"PodDeviceEntries":[{"PodUID":"da0fd88f-a3d8-4c69-88de-f6f0b91c6c6f","ContainerName":"main","ResourceName":"example.com/gpu","DeviceIDs":{"-1":["c"],"0":[],"1":["b","a"]},"AllocResp":"CgYKAUESATE="},{"PodUID":"u2","ContainerName":"a b","ResourceName":"example.com/\u003cnic\u003e","DeviceIDs":null,"AllocResp":null}],"RegisteredDevices":{"a.com/x":[],"example.com/gpu":["a","b","c"],"z.com/y":null}},"Checksum":3434772182}"#,
    r#"{"Data":{"PodDeviceEntries":null,"RegisteredDevices":null},"Checksum":1944006890}"#,
    r#"{"Data":{"PodDeviceEntries":[],"RegisteredDevices":{}},"Checksum":2932075448}"#,
];

#[test]
fn a_checkpoint_of_a_stock_kubelet_is_read() {
    for checkpoint in UPSTREAM {
        assert!(read(checkpoint.as_bytes()).problem.is_none(), "{checkpoint}");
    }
    let decoded = read(UPSTREAM[0].as_bytes());
    let uid = PodUid::from("da0fd88f-a3d8-4c69-88de-f6f0b91c6c6f");
    let allocation = decoded.allocations.of(&uid, "main", "example.com/gpu").unwrap();
    assert_eq!(allocation.response.envs, [("A".to_owned(), "1".to_owned())].into());
    assert_eq!(allocation.ids(), ["a", "b", "c"].map(str::to_owned).into());
    assert_eq!(decoded.registered["example.com/gpu"].len(), 3);
    let names: Vec<&String> = decoded.registered.keys().collect();
    assert_eq!(names, ["a.com/x", "example.com/gpu", "z.com/y"]);
}

#[test]
fn what_is_written_is_what_a_stock_kubelet_expects() {
    assert_eq!(encode(&BTreeMap::new(), &Allocations::default()), UPSTREAM[2].as_bytes());
    let changed = UPSTREAM[0].replace("\"main\"", "\"mian\"");
    assert!(matches!(
        read(changed.as_bytes()).problem,
        Some(FormatError::Checksum { found: 3_434_772_182, .. })
    ));
}

proptest! {
    /// What is written is read again, whatever the names are.
    #[test]
    fn a_checkpoint_is_read_as_it_was_written(
        entries in prop::collection::vec((".{0,8}", ".{0,8}", ".{0,8}", prop::collection::btree_map(-1_i64..12, prop::collection::vec(".{1,6}", 1..4), 0..3)), 0..5),
        registered in prop::collection::btree_map(".{0,8}", prop::collection::btree_set(".{0,8}", 0..4), 0..4),
        value in ".{0,8}",
    ) {
        let mut allocations = Allocations::default();
        for (uid, container, resource, devices) in entries {
            let response = ContainerAllocateResponse {
                envs: [("A".to_owned(), value.clone())].into(),
                ..ContainerAllocateResponse::default()
            };
            allocations.insert(&uid.as_str().into(), &container, &resource, Allocation { devices, response });
        }
        let decoded = read(&encode(&registered, &allocations));
        prop_assert!(decoded.problem.is_none());
        prop_assert_eq!(decoded.allocations, allocations);
        prop_assert_eq!(decoded.registered, registered);
    }
}
