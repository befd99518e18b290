//! Claims and their volumes: each type as upstream treats it, and a reason for every one that cannot be mounted.

use std::sync::Arc;

use hostlet_host::GroupChange;
use hostlet_pod::objects::{ClaimError, ObjectError};
use serde_json::{Value, json};

use super::*;
use crate::kinds::testing::Pod;
use crate::kinds::{local_volume, nfs};
use crate::model::External;
use crate::path_type::PathType;

const SIZE: &str = "1Gi";

fn bound(spec: Value) -> ClaimState {
    let mut spec = spec;
    spec["capacity"] = json!({"storage": SIZE});
    if spec.get("accessModes").is_none() {
        spec["accessModes"] = json!(["ReadWriteOnce"]);
    }
    let volume = json!({"metadata": {"name": "pv-1"}, "spec": spec});
    ClaimState::Bound(Arc::new(serde_json::from_value(volume).unwrap()))
}

/// The volume `v` of a pod behind the claim `data`.
fn of(pod: Pod, state: ClaimState, read_only: bool) -> DesiredVolume {
    let source = json!({"persistentVolumeClaim": {"claimName": "data", "readOnly": read_only}});
    pod.claims("data", state).desired_volume(source)
}

fn external(spec: Value) -> External {
    external_of(Pod::new(json!({})), spec, false)
}

fn external_of(pod: Pod, spec: Value, read_only: bool) -> External {
    match of(pod, bound(spec), read_only) {
        DesiredVolume::External(external) => external,
        other => panic!("{other:?}"),
    }
}

fn problem(spec: Value) -> String {
    match of(Pod::new(json!({})), bound(spec), false) {
        DesiredVolume::Invalid(problem) => problem.to_string(),
        DesiredVolume::Unprocessed(cause) => cause,
        other => panic!("{other:?}"),
    }
}

#[test]
fn annotations_give_the_pods_processes_their_groups() {
    let with = |group: &str| {
        let ClaimState::Bound(volume) = bound(json!({"nfs": {"server": "s", "path": "/"}})) else { panic!() };
        let mut volume = (*volume).clone();
        volume.metadata.annotations = Some([(GROUP.to_owned(), group.to_owned())].into());
        ClaimState::Bound(Arc::new(volume))
    };
    let volume = |claim: &str| json!({"name": claim, "persistentVolumeClaim": {"claimName": claim}});
    let all = ["a", "b", "same", "none", "no-number", "pending"];
    let pod = Pod::new(json!({"volumes": all.map(volume)}))
        .claims("a", with("2000"))
        .claims("b", with("1000"))
        .claims("same", with("2000"))
        .claims("none", bound(json!({"hostPath": {"path": "/srv"}})))
        .claims("no-number", with("2000,3000"))
        .claims("pending", ClaimState::Pending)
        .claims("of-another-pod", with("4000"));
    assert_eq!(groups(&pod.context()), [1000, 2000].into());
    assert!(matches!(of(Pod::new(json!({})), with("2000"), false), DesiredVolume::External(_)));
}

#[test]
fn a_host_path_has_its_type_and_is_read_only_if_the_pod_says_so() {
    let spec = json!({"hostPath": {"path": "/srv", "type": "DirectoryOrCreate"}});
    for read_only in [false, true] {
        let expected =
            DesiredVolume::Host { path: "/srv".into(), path_type: PathType::DirectoryOrCreate, read_only };
        assert_eq!(of(Pod::new(json!({})), bound(spec.clone()), read_only), expected);
    }
    let with_options = json!({"hostPath": {"path": "/srv"}, "mountOptions": ["noatime"]});
    let expected = "MountVolume.MountOptionSupport check failed for volume \"pv-1\" : \
                    mount options are not supported for this volume type";
    assert_eq!(problem(with_options), expected);
}

#[test]
fn a_local_volume_has_options_and_a_group() {
    let spec = json!({"local": {"path": "/mnt/disk1"}, "mountOptions": ["nosuid", "noatime", "nosuid"]});
    let local = external(spec.clone());
    assert_eq!(
        (local.directory, local.name.as_str(), local.source.as_str()),
        (local_volume::DIRECTORY, "pv-1", "/mnt/disk1")
    );
    assert_eq!(
        (local.options.as_slice(), local.group),
        (&["noatime".to_owned(), "nosuid".to_owned()][..], None)
    );
    assert!(!local.read_only && !local.is_exclusive);
    let pod = |policy: Value| {
        Pod::new(json!({"securityContext": {"fsGroup": 3000, "fsGroupChangePolicy": policy}}))
    };
    let group = |policy, read_only| external_of(pod(policy), spec.clone(), read_only).group;
    assert_eq!(group(Value::Null, false), Some((3000, GroupChange::Always)));
    assert_eq!(group(json!("OnRootMismatch"), false), Some((3000, GroupChange::OnRootMismatch)));
    assert_eq!(group(Value::Null, true), group(Value::Null, false));
    assert!(external(json!({"local": {"path": "/mnt"}, "accessModes": ["ReadWriteOncePod"]})).is_exclusive);
    let two = json!({"local": {"path": "/mnt"}, "accessModes": ["ReadWriteOncePod", "ReadWriteOnce"]});
    assert!(!external(two).is_exclusive, "as upstream: the pod may mean the other");
    let escaping = problem(json!({"local": {"path": "/mnt/../etc"}}));
    assert!(escaping.contains("must not contain '..'"), "{escaping}");
}

#[test]
fn nfs_has_its_server_its_options_and_no_group() {
    let pod = Pod::new(json!({"securityContext": {"fsGroup": 3000}}));
    let spec = json!({"nfs": {"server": "fd00::1", "path": "/export"}, "mountOptions": ["hard"]});
    let nfs = external_of(pod, spec, true);
    assert_eq!(
        (nfs.directory, nfs.name.as_str(), nfs.source.as_str()),
        (nfs::DIRECTORY, "pv-1", "[fd00::1]:/export")
    );
    assert_eq!((nfs.options.as_slice(), nfs.group, nfs.read_only), (&["hard".to_owned()][..], None, true));
}

#[test]
fn the_annotation_with_mount_options_precedes_the_field() {
    let volume = json!({
        "metadata": {"name": "pv-1", "annotations": {MOUNT_OPTIONS: "soft,,ro"}},
        "spec": {"nfs": {"server": "s", "path": "/"}, "mountOptions": ["hard"]}
    });
    let state = ClaimState::Bound(Arc::new(serde_json::from_value(volume).unwrap()));
    match of(Pod::new(json!({})), state, false) {
        DesiredVolume::External(nfs) => assert_eq!(nfs.options, ["ro", "soft"]),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_volume_of_other_nodes_is_not_mounted() {
    let spec = json!({"local": {"path": "/mnt"}, "nodeAffinity": {"required": {"nodeSelectorTerms": [
        {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": ["n1"]}]}]}}});
    let expected =
        "MountVolume.NodeAffinity check failed for volume \"pv-1\" : no matching NodeSelectorTerms";
    assert_eq!(problem(spec.clone()), expected);
    let mut device = spec.clone();
    device["volumeMode"] = json!("Block");
    assert_eq!(problem(device), expected.replace("MountVolume", "MapVolume"));
    let mut pod = Pod::new(json!({}));
    pod.labels = [("kubernetes.io/hostname".to_owned(), "n1".to_owned())].into();
    assert_eq!(external_of(pod, spec, false).source, "/mnt");
}

#[test]
fn volumes_that_hostlet_cannot_mount_say_what_they_need() {
    let iscsi = json!({"iscsi": {"targetPortal": "10.0.0.1", "iqn": "iqn.2001-04.com.example:a", "lun": 0}});
    let iscsi = problem(iscsi);
    assert!(iscsi.ends_with("hostlet does not mount PersistentVolumes of the type iscsi yet"), "{iscsi}");
    let block = problem(json!({"nfs": {"server": "s", "path": "/"}, "volumeMode": "Block"}));
    let expected = "MapVolume.FindMapperPluginBySpec failed for volume \"pv-1\" : PersistentVolumes of this type are no block devices";
    assert_eq!(block, expected);
    assert!(problem(json!({})).ends_with("it has no type"));
}

#[test]
fn a_volume_is_used_as_what_it_is() {
    let of = |containers: Value, mode: &str| {
        let spec = json!({"csi": {"driver": "d", "volumeHandle": "h"}, "volumeMode": mode});
        match of(Pod::new(json!({"containers": containers})), bound(spec), false) {
            DesiredVolume::Unprocessed(cause) => Err(cause),
            DesiredVolume::Driver(volume) => Ok(volume.is_block),
            other => panic!("{other:?}"),
        }
    };
    let mounting = || json!({"name": "m", "volumeMounts": [{"name": "v", "mountPath": "/v"}]});
    let device = || json!({"name": "d", "volumeDevices": [{"name": "v", "devicePath": "/dev/x"}]});
    assert_eq!(of(json!([mounting()]), "Filesystem"), Ok(false));
    assert_eq!(of(json!([device()]), "Block"), Ok(true));
    let text = |mode, field| Err(format!("volume v has volumeMode {mode}, but is specified in {field}"));
    assert_eq!(of(json!([mounting()]), "Block"), text("Block", "volumeMounts"));
    assert_eq!(of(json!([device()]), "Filesystem"), text("Filesystem", "volumeDevices"));
    assert_eq!(of(json!([device(), mounting()]), "Block"), text("Block", "volumeMounts"));
}

#[test]
fn an_ephemeral_volume_has_a_claim_of_its_own_pod() {
    let pod = |state| Pod::new(json!({})).claims("web-v", state);
    let source = || json!({"ephemeral": {"volumeClaimTemplate": {"spec": {"resources": {}}}}});
    let local = pod(bound(json!({"local": {"path": "/mnt/disk1"}}))).desired_volume(source());
    assert!(matches!(local, DesiredVolume::External(local) if local.name == "pv-1" && !local.read_only));
    let cause = |state| match pod(state).desired_volume(source()) {
        DesiredVolume::Unprocessed(cause) => cause,
        other => panic!("{other:?}"),
    };
    let expected = "PVC ns/web-v was not created for pod ns/web (pod is not owner)";
    assert_eq!(cause(ClaimState::Failed(ClaimError::NotOwned)), expected);
    assert_eq!(
        cause(ClaimState::Failed(ClaimError::NotBound)),
        "error processing PVC ns/web-v: PVC is not bound"
    );
    let volumes =
        json!([{"name": "v", "ephemeral": {}}, {"name": "w", "persistentVolumeClaim": {"claimName": "c"}}]);
    let of = |name: &str, owner: Option<&str>| ClaimRef {
        namespace: "ns".into(),
        name: name.into(),
        owner: owner.map(str::to_owned),
    };
    assert_eq!(
        claims(&Pod::new(json!({"volumes": volumes})).pod),
        [of("web-v", Some("uid-1")), of("c", None)]
    );
}

#[test]
fn a_claim_that_cannot_be_used_says_why() {
    let cause = |state| match of(Pod::new(json!({})), state, false) {
        DesiredVolume::Unprocessed(cause) => cause,
        other => panic!("{other:?}"),
    };
    assert_eq!(
        cause(ClaimState::Failed(ClaimError::NotBound)),
        "error processing PVC ns/data: PVC is not bound"
    );
    let absent = ObjectError::NotFound("persistentvolumeclaims \"data\" not found".into());
    let expected = "error processing PVC ns/data: failed to fetch PVC from API server: persistentvolumeclaims \"data\" not found";
    assert_eq!(cause(ClaimState::Failed(ClaimError::FetchClaim(absent))), expected);
    assert!(cause(ClaimState::Pending).starts_with("error processing PVC ns/data: failed to fetch PVC"));
}
