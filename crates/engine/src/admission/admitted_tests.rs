//! The record of admitted pods across restarts of the daemon.

use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::Arc;

use hostlet_base::PodUid;
use hostlet_base::testing::at;
use hostlet_pod::DesiredPods;
use hostlet_pod::pod_uid;
use hostlet_pod::testing;
use hostlet_pod::{AdmittedPod, ManifestOrigin};
use hostlet_store::{Store, Table};
use k8s_openapi::api::core::v1::Pod;
use proptest::prelude::*;

use super::AdmittedPods;
use crate::source::{FileAccess, ManifestContext, SourceState, StaticPod, read_manifest};

fn of_file(pod: Pod) -> Arc<StaticPod> {
    let file = PathBuf::from(format!("/m/{}.yaml", pod.metadata.uid.as_deref().unwrap_or_default()));
    Arc::new(StaticPod { pod: Arc::new(pod), origin: ManifestOrigin::File(file), unsupported: Vec::new() })
}

fn pods(uids: &[&str]) -> Vec<Arc<StaticPod>> {
    uids.iter().map(|uid| of_file(testing::pod(uid, uid, "Always", &["c"]))).collect()
}

fn record(admitted: &AdmittedPods, pods: &[Arc<StaticPod>], ready: bool, second: i64) {
    let source = SourceState { ready, pods: pods.to_vec(), problems: Vec::new() };
    let desired_pods = DesiredPods {
        ready,
        pods: pods.iter().map(|pod| AdmittedPod::new(pod.pod.clone())).collect(),
        ..DesiredPods::default()
    };
    admitted.record(&source, &desired_pods, at(second));
}

/// UIDs of the pods that the next daemon adopts, in order.
fn adopted(store: &Store) -> Vec<String> {
    let (_, adopted) = AdmittedPods::new(store.copy());
    adopted.iter().map(|pod| pod_uid(&pod.pod).to_string()).collect()
}

fn known(uids: &[&str]) -> HashSet<PodUid> {
    uids.iter().map(|uid| (*uid).into()).collect()
}

#[test]
fn a_pod_is_adopted_until_it_is_neither_desired_nor_known() {
    let store = Store::default();
    let (admitted, nothing) = AdmittedPods::new(store.clone());
    assert_eq!(nothing, []);
    let both = pods(&["b", "a"]);
    record(&admitted, &both[..1], true, 1);
    record(&admitted, &both, true, 2);
    assert_eq!(adopted(&store), ["b", "a"], "in order of admission");
    // Before their lifecycles are known.
    admitted.retain(&known(&[]));
    assert_eq!(adopted(&store), ["b", "a"]);
    // No longer desired, and terminating.
    record(&admitted, &both[1..], true, 3);
    admitted.retain(&known(&["a", "b"]));
    assert_eq!(adopted(&store), ["b", "a"]);
    admitted.retain(&known(&["a"]));
    assert_eq!(adopted(&store), ["a"]);
}

#[test]
fn a_pod_that_was_dropped_is_admitted_no_longer_although_it_still_terminates() {
    let store = Store::default();
    let (admitted, _) = AdmittedPods::new(store.clone());
    let both = pods(&["a", "b"]);
    record(&admitted, &both, true, 1);
    record(&admitted, &both[..1], true, 2);
    admitted.retain(&known(&["a", "b"]));
    assert_eq!(adopted(&store), ["a", "b"], "the next daemon finishes its termination");
    let (next, adopted) = AdmittedPods::new(store.copy());
    let named: Vec<bool> = adopted.iter().map(|pod| pod.of_manifest().is_some()).collect();
    assert_eq!(named, [true, false], "an unreadable manifest does not bring it back");
    assert_eq!(next.all().keys().collect::<Vec<_>>(), [&PodUid::from("a")]);
    record(&next, &both, true, 3);
    assert_eq!(next.all()[&PodUid::from("b")].at, at(3));
}

#[test]
fn an_admission_time_lasts_while_the_source_names_the_pod() {
    let store = Store::default();
    let (admitted, _) = AdmittedPods::new(store.clone());
    let both = pods(&["a", "b"]);
    record(&admitted, &both, true, 1);
    let (next, _) = AdmittedPods::new(store.copy());
    // The source is not ready yet; then one of the two is removed and comes back.
    record(&next, &[], false, 2);
    assert_eq!(next.all().len(), 2);
    record(&next, &both[..1], true, 3);
    record(&next, &both, true, 4);
    let admitted = next.all();
    assert_eq!((admitted[&PodUid::from("a")].at, admitted[&PodUid::from("b")].at), (at(1), at(4)));
}

#[test]
fn a_clock_set_back_keeps_the_order() {
    let store = Store::default();
    let (admitted, _) = AdmittedPods::new(store.clone());
    let all = pods(&["c", "b", "a"]);
    record(&admitted, &all[..1], true, 90_000);
    // A successor of the same name arrives while its predecessor terminates.
    record(&admitted, &all[1..2], true, 3_600);
    assert_eq!(adopted(&store), ["c", "b"]);
    let (next, _) = AdmittedPods::new(store.clone());
    record(&next, &all[2..], true, 10);
    assert_eq!(adopted(&store), ["c", "b", "a"]);
}

#[test]
fn back_off_and_requested_restarts_are_deleted_with_their_pod() {
    let store = Store::default();
    let (admitted, _) = AdmittedPods::new(store.clone());
    let tables =
        [Table::ActiveSince, Table::CrashLoops, Table::ImagePulls, Table::ProbeResults, Table::Restarts];
    for table in tables {
        store.put(table, "a", &1);
        store.put(table, "b", &1);
        admitted.retain(&known(&["b"]));
        assert_eq!(store.all::<u32>(table), [("b".to_owned(), 1)]);
    }
}

#[test]
fn a_row_holds_the_source_and_the_admission_time() {
    let store = Store::default();
    let (admitted, _) = AdmittedPods::new(store.clone());
    record(&admitted, &pods(&["a"]), true, 1);
    let row: serde_json::Value = store.get(Table::AdmittedPods, "a").unwrap();
    assert_eq!(row["source"], serde_json::json!({"file": "/m/a.yaml"}));
    assert_eq!(row["admittedAt"], "1970-01-01T00:00:01Z");
    assert_eq!(row["pod"]["metadata"]["uid"], "a");
}

proptest! {
    /// A pod is read back unchanged: otherwise every start of the daemon would take it for an updated pod.
    #[test]
    fn pods_survive_the_store(
        name in "[a-z]{1,8}",
        labels in proptest::collection::btree_map("[a-z]{1,5}", "[a-zA-Z0-9]{0,9}", 0..4),
        args in proptest::option::of(proptest::collection::vec(".{0,12}", 0..4)),
        env in proptest::collection::btree_map("[A-Z_]{1,6}", ".{0,12}", 0..4),
        cpu in proptest::option::of("[1-9][0-9]{0,3}m"),
        grace in proptest::option::of(0i64..100),
        host_network in any::<Option<bool>>(),
        seen in 0i64..4_000_000_000,
    ) {
        let mut container = serde_json::json!({"name": "c", "image": "img:1", "args": args});
        container["env"] = env.iter().map(|(name, value)| serde_json::json!({"name": name, "value": value})).collect();
        if let Some(cpu) = cpu {
            container["resources"] = serde_json::json!({"requests": {"cpu": cpu}});
        }
        let manifest = serde_json::json!({"apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": name, "labels": labels},
            "spec": {"containers": [container], "hostNetwork": host_network, "terminationGracePeriodSeconds": grace}});
        let file = PathBuf::from("/m/web.yaml");
        let context = ManifestContext { file: &file, access: FileAccess::Shared, node_name: "node1", is_alone: false };
        let read = read_manifest(manifest.to_string().as_bytes(), &context, at(seen));
        prop_assume!(read.is_ok());
        let read = Arc::new(read.unwrap().pod.unwrap());
        let store = Store::default();
        let (admitted, _) = AdmittedPods::new(store.clone());
        record(&admitted, std::slice::from_ref(&read), true, 1);
        let (_, adopted) = AdmittedPods::new(store.copy());
        prop_assert_eq!(adopted[0].of_manifest().unwrap(), (*read).clone());
    }
}
