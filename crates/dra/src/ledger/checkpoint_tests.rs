//! The file's format: content that the stock kubelet wrote, and damage.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::claim::{Claim, Goal, Part, PartState};
use super::{Ledger, decode, encode};
use crate::Device;

const BOOT: &str = "boot";

/// From the tests of the stock kubelet 1.37.2 (`cm/dra/state/checkpointer_test.go`).
const TWO_CLAIMS: &str = r#"{"Data":"{\"kind\":\"DRACheckpoint\",\"apiVersion\":\"checkpoint.dra.kubelet.k8s.io/v1\",\"ClaimInfoStateList\":[{\"ClaimUID\":\"067798be-454e-4be4-9047-1aa06aea63f7\",\"ClaimName\":\"example-1\",\"Namespace\":\"default\",\"PodUIDs\":{\"139cdb46-f989-4f17-9561-ca10cfb509a6\":{}},\"DriverState\":{\"test-driver.cdi.k8s.io\":{\"Devices\":[{\"PoolName\":\"worker-1\",\"DeviceName\":\"dev-1\",\"ShareID\":null,\"RequestNames\":[\"test request\"],\"CDIDeviceIDs\":[\"example.com/example=cdi-example\"]}]}}},{\"ClaimUID\":\"4cf8db2d-06c0-7d70-1a51-e59b25b2c16c\",\"ClaimName\":\"example-2\",\"Namespace\":\"default\",\"PodUIDs\":{\"139cdb46-f989-4f17-9561-ca10cfb509a6\":{}},\"DriverState\":{\"test-driver.cdi.k8s.io\":{\"Devices\":[{\"PoolName\":\"worker-1\",\"DeviceName\":\"dev-2\",\"ShareID\":null,\"RequestNames\":null,\"CDIDeviceIDs\":null}]}}}]}","Checksum":2820117767}"#;
const SHARED: &str = r#"{"Data":"{\"kind\":\"DRACheckpoint\",\"apiVersion\":\"checkpoint.dra.kubelet.k8s.io/v1\",\"ClaimInfoStateList\":[{\"ClaimUID\":\"067798be-454e-4be4-9047-1aa06aea63f7\",\"ClaimName\":\"example\",\"Namespace\":\"default\",\"PodUIDs\":{\"139cdb46-f989-4f17-9561-ca10cfb509a6\":{}},\"DriverState\":{\"test-driver.cdi.k8s.io\":{\"Devices\":[{\"PoolName\":\"worker-1\",\"DeviceName\":\"dev-1\",\"ShareID\":\"aaaaaaaa-aaaa-aaaa-aaaa-aaaaaaaaaaaa\",\"RequestNames\":[\"test request\"],\"CDIDeviceIDs\":[\"example.com/example=cdi-example\"]}]}}}]}","Checksum":736302156}"#;
/// Of an older kubelet, without `RequestNames`, whose `apiVersion` is another one.
const OLD: &str = r#"{"Data":"{\"kind\":\"DRACheckpoint\",\"apiVersion\":\"checkpoint.dra.kubelet.k8s.io/v0\",\"ClaimInfoStateList\":[{\"ClaimUID\":\"067798be-454e-4be4-9047-1aa06aea63f7\",\"ClaimName\":\"example\",\"Namespace\":\"default\",\"PodUIDs\":{\"139cdb46-f989-4f17-9561-ca10cfb509a6\":{}},\"DriverState\":{\"test-driver.cdi.k8s.io\":{\"Devices\":[{\"PoolName\":\"worker-1\",\"DeviceName\":\"dev-1\",\"CDIDeviceIDs\":[\"example.com/example=cdi-example\"]}]}}}]}","Checksum":1284376732}"#;
/// After all claims (kubernetes/kubernetes#131513), and before the first one.
const EMPTY: &str = r#"{"Data":"{\"kind\":\"DRACheckpoint\",\"apiVersion\":\"checkpoint.dra.kubelet.k8s.io/v1\",\"ClaimInfoStateList\":[]}","Checksum":2361995144}"#;
const NONE: &str = r#"{"Data":"{\"kind\":\"DRACheckpoint\",\"apiVersion\":\"checkpoint.dra.kubelet.k8s.io/v1\",\"ClaimInfoStateList\":null}","Checksum":4010664294}"#;

#[test]
fn the_stock_kubelets_files_are_read_and_written() {
    for content in [TWO_CLAIMS, SHARED, EMPTY] {
        let ledger = decode(content.as_bytes(), BOOT).unwrap();
        assert_eq!(encode(&ledger, BOOT).unwrap(), content);
    }
    assert_eq!(decode(NONE.as_bytes(), BOOT).unwrap(), Ledger::default());
    let ledger = decode(SHARED.as_bytes(), BOOT).unwrap();
    let claim = ledger.get("default", "example").unwrap();
    assert!(claim.pods.contains("139cdb46-f989-4f17-9561-ca10cfb509a6"));
    let part = &claim.parts["test-driver.cdi.k8s.io"];
    // Who wrote it did not say whether the driver was called.
    assert_eq!((part.state, part.devices.len(), claim.is_prepared()), (PartState::Uncertain, 1, false));
    assert_eq!(part.devices[0].share_id.as_deref(), Some("aaaaaaaa-aaaa-aaaa-aaaa-aaaaaaaaaaaa"));
    let old = decode(OLD.as_bytes(), BOOT).unwrap();
    let device = old.get("default", "example").unwrap().devices(Some("any")).next().unwrap().1.clone();
    assert_eq!(device.cdi_device_ids, ["example.com/example=cdi-example"]);
}

#[test]
fn damage_is_found() {
    let message = |content: &str| decode(content.as_bytes(), BOOT).unwrap_err().to_string();
    assert!(message("{").contains("not the JSON of a checkpoint"));
    assert!(message(&TWO_CLAIMS.replace("dev-1", "dev-3")).contains("it is damaged"));
    let data = "1";
    let content = serde_json::json!({"Data": data, "Checksum": crc32fast::hash(data.as_bytes())});
    assert!(message(&content.to_string()).contains("not the JSON of claims"));
}

fn ledger() -> impl Strategy<Value = Ledger> {
    let text = "[a-z<&\"é]{0,6}";
    let device = (text, text, proptest::option::of(text), proptest::collection::vec(text, 0..3)).prop_map(
        |(pool_name, device_name, share_id, names)| Device {
            pool_name,
            device_name,
            share_id,
            request_names: names.clone(),
            cdi_device_ids: names,
        },
    );
    let part = (proptest::collection::vec(device, 0..3), proptest::collection::vec("[*a]", 0..2))
        .prop_map(|(devices, skipped)| Part { state: PartState::Done, devices, skipped, error: None });
    let pods = proptest::collection::btree_set(text, 0..3);
    let claim = (text, pods, proptest::collection::btree_map(text, part, 1..3), any::<bool>()).prop_map(
        |(uid, pods, mut parts, is_prepared)| {
            if !is_prepared {
                parts.values_mut().for_each(|part| part.state = PartState::Uncertain);
            }
            let pods: BTreeSet<_> = pods.into_iter().map(Into::into).collect();
            Claim { uid, pods, goal: Goal::Prepared, parts }
        },
    );
    proptest::collection::btree_map((text, text), claim, 0..4)
        .prop_map(|claims: BTreeMap<_, _>| Ledger::restored(claims))
}

proptest! {
    #[test]
    fn what_is_written_is_read_again_in_the_same_boot(ledger in ledger()) {
        let content = encode(&ledger, BOOT).unwrap();
        prop_assert_eq!(&decode(content.as_bytes(), BOOT).unwrap(), &ledger);
        // After a boot nothing counts as prepared; what is known of devices and pods stays.
        let later = decode(content.as_bytes(), "next").unwrap();
        prop_assert!(later.claims().values().all(|claim| !claim.is_prepared()));
        prop_assert_eq!(later.claims().len(), ledger.claims().len());
    }

    #[test]
    fn nothing_makes_it_panic(content in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = decode(&content, BOOT);
    }
}
