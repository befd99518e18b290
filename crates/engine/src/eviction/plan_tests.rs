//! Tests of limits and of what exceeds them.

use std::path::Path;
use std::sync::Arc;

use hostlet_host::SpaceUsage;
use hostlet_observe::stats::{ContainerStorage, ContainersStorage, PodStorage, VolumeUsage};
use hostlet_pod::AdmittedPod;
use serde_json::{Value, json};

use super::limits::StorageLimits;
use super::plan::{Signal, breach};

fn pod(spec: Value) -> Arc<AdmittedPod> {
    let pod: k8s_openapi::api::core::v1::Pod = serde_json::from_value(
        json!({"metadata": {"name": "p", "namespace": "n", "uid": "u"}, "spec": spec}),
    )
    .unwrap();
    AdmittedPod::new(pod)
}

fn limited(amount: &str) -> Value {
    json!({"limits": {"ephemeral-storage": amount}})
}

/// A pod with limits of every kind.
fn full() -> Arc<AdmittedPod> {
    pod(json!({
        "initContainers": [
            {"name": "init", "resources": limited("1Gi")},
            {"name": "side", "restartPolicy": "Always", "resources": limited("10Mi")},
        ],
        "containers": [{"name": "a", "resources": limited("20Mi")}, {"name": "b", "resources": limited("0")}, {"name": "c"}],
        "volumes": [
            {"name": "free", "emptyDir": {}},
            {"name": "small", "emptyDir": {"sizeLimit": "1Mi"}},
            {"name": "zero", "emptyDir": {"sizeLimit": "0"}},
            {"name": "memory", "emptyDir": {"medium": "Memory", "sizeLimit": "1Mi"}},
            {"name": "config", "configMap": {"name": "c"}},
            {"name": "secret", "secret": {"secretName": "s"}},
            {"name": "host", "hostPath": {"path": "/"}},
        ],
    }))
}

#[test]
fn only_pods_with_limits_are_measured_and_only_what_counts() {
    assert_eq!(
        StorageLimits::of(&pod(
            json!({"containers": [{"name": "a"}], "volumes": [{"name": "v", "emptyDir": {}}]})
        )),
        None
    );
    let full = full();
    let limits = StorageLimits::of(&full).unwrap();
    // The init container runs together with no other.
    assert_eq!(limits.pod.unwrap().to_string(), "1Gi");
    assert_eq!(limits.containers.keys().collect::<Vec<_>>(), ["a", "side"]);
    let places = limits.places(&full, Path::new("/root"));
    let volumes: Vec<(&str, &str, u64)> = places
        .volumes
        .iter()
        .map(|(name, place)| (&**name, place.path.to_str().unwrap(), place.enough))
        .collect();
    let at = "/root/pods/u/volumes";
    let expected = [
        ("config", &*format!("{at}/kubernetes.io~configmap/config"), 1 << 30),
        ("free", &*format!("{at}/kubernetes.io~empty-dir/free"), 1 << 30),
        ("small", &*format!("{at}/kubernetes.io~empty-dir/small"), 1 << 20),
        ("zero", &*format!("{at}/kubernetes.io~empty-dir/zero"), 1 << 30),
    ];
    assert_eq!(volumes, expected);
    assert_eq!(places.containers.as_deref(), Some(Path::new("/root/pods/u/etc-hosts")));

    let only_volume = pod(json!({
        "containers": [{"name": "a"}],
        "volumes": [{"name": "v", "emptyDir": {"sizeLimit": "500M"}}, {"name": "w", "emptyDir": {}}],
    }));
    let places = StorageLimits::of(&only_volume).unwrap().places(&only_volume, Path::new("/root"));
    assert_eq!(places.volumes.keys().collect::<Vec<_>>(), ["v"]);
    assert_eq!(places.containers, None);
}

#[test]
fn a_volume_in_huge_pages_has_its_own_limit_only() {
    let pod = pod(json!({
        "containers": [{"name": "a", "resources": limited("1Mi")}],
        "volumes": [
            {"name": "huge", "emptyDir": {"medium": "HugePages", "sizeLimit": "4Mi"}},
            {"name": "free", "emptyDir": {"medium": "HugePages-2Mi"}},
        ],
    }));
    let places = StorageLimits::of(&pod).unwrap().places(&pod, Path::new("/root"));
    let huge = places.volumes.get("huge").unwrap();
    assert_eq!((places.volumes.len(), huge.enough), (1, 4 * MIB));
    assert_eq!(huge.path, Path::new("/root/pods/u/volumes/kubernetes.io~empty-dir/huge"));
    assert_eq!(message(&pod, &storage(&[("huge", 4 * MIB)], &[], 0)), None);
    let expected = "Usage of EmptyDir volume \"huge\" exceeds the limit \"4Mi\". ";
    assert_eq!(message(&pod, &storage(&[("huge", 6 * MIB)], &[], 0)).as_deref(), Some(expected));
}

const MIB: u64 = 1 << 20;

fn storage(volumes: &[(&str, u64)], containers: &[(&str, u64, u64)], pod_files: u64) -> PodStorage {
    let container = |(name, writable_layer, logs): &(&str, u64, u64)| {
        let storage =
            ContainerStorage { writable_layer: *writable_layer, logs: *logs, ..ContainerStorage::default() };
        (Arc::from(*name), storage)
    };
    let volume = |(name, bytes): &(&str, u64)| {
        let space = SpaceUsage { bytes: *bytes, inodes: 1 };
        ((*name).to_owned(), VolumeUsage { space, ..VolumeUsage::default() })
    };
    PodStorage {
        volumes: volumes.iter().map(volume).collect(),
        containers: Some(ContainersStorage {
            by_name: containers.iter().map(container).collect(),
            pod_files,
        }),
    }
}

fn message(pod: &AdmittedPod, storage: &PodStorage) -> Option<String> {
    breach(&StorageLimits::of(pod).unwrap(), storage).map(|breach| breach.message)
}

#[test]
fn messages_and_order_equal_the_stock_kubelets() {
    let full = full();
    let at_the_limits = storage(
        &[("small", MIB), ("free", 100 * MIB)],
        &[("a", 12 * MIB, 8 * MIB), ("side", 10 * MIB, 0)],
        0,
    );
    assert_eq!(message(&full, &at_the_limits), None);
    assert_eq!(message(&full, &PodStorage::default()), None);

    let volume = "Usage of EmptyDir volume \"small\" exceeds the limit \"1Mi\". ";
    let whole = "Pod ephemeral local storage usage exceeds the total limit of containers 1Gi. ";
    let container = |name: &str, limit: &str| {
        format!("Container {name} exceeded its local ephemeral storage limit \"{limit}\". ")
    };
    // A volume comes first, then the whole pod, then containers.
    let all = storage(&[("small", MIB + 1), ("free", 1 << 30)], &[("a", 1 << 30, 0)], 0);
    assert_eq!(message(&full, &all).as_deref(), Some(volume));
    let sum = storage(&[("free", 1000 * MIB)], &[("a", 12 * MIB, 8 * MIB), ("c", 3 * MIB, MIB)], 1);
    assert_eq!(message(&full, &sum).as_deref(), Some(whole));
    let one = storage(&[], &[("a", 12 * MIB, 8 * MIB + 1), ("side", 11 * MIB, 0)], 0);
    assert_eq!(message(&full, &one), Some(container("a", "20Mi")));
    let sidecar = storage(&[], &[("a", 0, 0), ("side", 11 * MIB, 0), ("init", 500 * MIB, 0)], 0);
    assert_eq!(message(&full, &sidecar), Some(container("side", "10Mi")));
    let without_limit = storage(&[], &[("b", 100 * MIB, 0), ("c", 100 * MIB, 100 * MIB)], 0);
    assert_eq!(message(&full, &without_limit), None);
}

#[test]
fn a_limit_of_nothing_is_exceeded_by_anything() {
    let pod = pod(json!({"containers": [{"name": "a", "resources": limited("0")}]}));
    assert_eq!(message(&pod, &storage(&[], &[("a", 0, 0)], 0)), None);
    let expected = "Pod ephemeral local storage usage exceeds the total limit of containers 0. ";
    assert_eq!(message(&pod, &storage(&[], &[("a", 1, 0)], 0)).as_deref(), Some(expected));
}

#[test]
fn a_writable_layer_on_another_filesystem_counts_for_the_pod_only() {
    let pod = pod(
        json!({"containers": [{"name": "a", "resources": limited("1Mi")}, {"name": "b", "resources": limited("9Mi")}]}),
    );
    let mut used = storage(&[], &[("a", 5 * MIB, 0)], 0);
    let of_a = |used: &mut PodStorage| *used.containers.as_mut().unwrap().by_name.get_mut("a").unwrap();
    let elsewhere = ContainerStorage { is_layer_elsewhere: true, ..of_a(&mut used) };
    used.containers.as_mut().unwrap().by_name.insert("a".into(), elsewhere);
    assert_eq!(message(&pod, &used), None);
    let more = ContainerStorage { writable_layer: 11 * MIB, ..elsewhere };
    used.containers.as_mut().unwrap().by_name.insert("a".into(), more);
    let breach = breach(&StorageLimits::of(&pod).unwrap(), &used).unwrap();
    assert_eq!((breach.signal, breach.signal.as_str()), (Signal::Pod, "ephemeralpodfs.limit"));
}

#[test]
fn quantities_are_written_as_upstream_does_and_compared_exactly() {
    let sized = |limit: &str| {
        pod(
            json!({"containers": [{"name": "a"}], "volumes": [{"name": "v", "emptyDir": {"sizeLimit": limit}}]}),
        )
    };
    for (limit, used, written) in [
        ("0.5", 1, "500m"),
        ("1024Ki", MIB + 1, "1Mi"),
        ("1e3", 1001, "1e3"),
        ("1500M", 1_500_000_001, "1500M"),
    ] {
        let pod = sized(limit);
        let expected = format!("Usage of EmptyDir volume \"v\" exceeds the limit \"{written}\". ");
        assert_eq!(message(&pod, &storage(&[("v", used)], &[], 0)), Some(expected), "{limit}");
        assert_eq!(message(&pod, &storage(&[("v", used - 1)], &[], 0)), None, "{limit}");
    }
}
