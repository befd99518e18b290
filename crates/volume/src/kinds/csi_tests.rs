//! What is asked of drivers: each rule of upstream's `csi_mounter.go`, `csi_attacher.go` and `csi_block.go`, with its texts.

use std::sync::Arc;

use hostlet_host::GroupChange;
use hostlet_pod::objects::ObjectKind;
use serde_json::{Value, json};

use super::*;
use crate::kinds::testing::{Pod as TestPod, found};

const DRIVER: &str = "csi.example.com";

fn inline(pod: &TestPod, source: Value) -> DriverVolume {
    let mut source = source;
    source["driver"] = json!(DRIVER);
    match pod.desired_volume(json!({"csi": source})) {
        DesiredVolume::Driver(volume) => *volume,
        other => panic!("{other:?}"),
    }
}

fn state(spec: Value, source: Value) -> ClaimState {
    let (mut spec, mut source) = (spec, source);
    source["driver"] = json!(DRIVER);
    source["volumeHandle"] = json!("vol-1");
    spec["csi"] = source;
    // An older way of saying it, which drivers never get.
    let annotations = json!({"volume.beta.kubernetes.io/mount-options": "ro,soft"});
    let volume = json!({"metadata": {"name": "pv-1", "annotations": annotations}, "spec": spec});
    ClaimState::Bound(Arc::new(serde_json::from_value(volume).unwrap()))
}

fn any(pod: TestPod, spec: Value, source: Value, read_only: bool) -> DesiredVolume {
    let claim = json!({"persistentVolumeClaim": {"claimName": "data", "readOnly": read_only}});
    pod.claims("data", state(spec, source)).desired_volume(claim)
}

fn persistent(pod: TestPod, spec: Value, source: Value) -> DriverVolume {
    match any(pod, spec, source, false) {
        DesiredVolume::Driver(volume) => *volume,
        other => panic!("{other:?}"),
    }
}

fn plain() -> TestPod {
    TestPod::new(json!({}))
}

fn text(volume: DriverVolume) -> String {
    volume.request.unwrap_err().to_string()
}

fn has<const N: usize>(map: &BTreeMap<String, String>, expected: [(&str, &str); N]) {
    let expected: BTreeMap<String, String> =
        expected.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
    assert_eq!(*map, expected);
}

#[test]
fn a_volume_of_a_pod_needs_a_driver_with_ephemeral_volumes() {
    let ephemeral = json!({"volumeLifecycleModes": ["Persistent", "Ephemeral"], "attachRequired": true});
    let pod = plain().driver(DRIVER, ephemeral);
    let source = json!({"readOnly": true, "fsType": "ext4", "volumeAttributes": {"a": "b"}});
    let volume = inline(&pod, source);
    let request = volume.request.unwrap();
    assert!(request.is_ephemeral && !request.is_attached && request.read_only && volume.read_only);
    assert_eq!((request.spec_name.as_str(), request.access_mode), ("v", AccessMode::ReadWriteOnce));
    assert_eq!(request.id.handle, ephemeral_handle(&"uid-1".into(), "v"));
    assert_eq!(request.form, Form::Filesystem { fs_type: "ext4".into(), options: vec![] });
    has(&request.attributes, [("a", "b")]);
    has(&request.pod_attributes, []);
    let begin = "MountVolume.SetUp failed for volume \"v\" : kubernetes.io/csi: mounter.SetupAt failed to check volume \
                 lifecycle mode: volume mode \"Ephemeral\" not supported by driver csi.example.com";
    assert_eq!(text(inline(&plain(), json!({}))), format!("{begin} (no CSIDriver object)"));
    for spec in [json!({}), json!({"volumeLifecycleModes": ["Persistent"]})] {
        let pod = plain().driver(DRIVER, spec);
        assert_eq!(text(inline(&pod, json!({}))), format!("{begin} (only supports [\"Persistent\"])"));
    }
    let only = plain().driver(DRIVER, json!({"volumeLifecycleModes": ["Ephemeral"]}));
    let text = text(persistent(only, json!({}), json!({})));
    assert!(text.ends_with("volume mode \"Persistent\" not supported by driver csi.example.com (only supports [\"Ephemeral\"])"), "{text}");
}

#[test]
fn a_persistent_volume_has_its_attributes_its_options_and_its_first_access_mode() {
    let spec =
        json!({"mountOptions": ["nosuid", "noatime"], "accessModes": ["ReadOnlyMany", "ReadWriteOnce"]});
    let source = json!({"fsType": "xfs", "volumeAttributes": {"size": "1"}, "readOnly": true});
    let volume = persistent(plain(), spec, source);
    let request = volume.request.unwrap();
    let options = vec!["nosuid".to_owned(), "noatime".to_owned()];
    assert_eq!(request.form, Form::Filesystem { fs_type: "xfs".into(), options });
    assert_eq!(
        (request.id.to_string().as_str(), request.spec_name.as_str()),
        ("csi.example.com^vol-1", "pv-1")
    );
    // As upstream: the claim's readOnly counts, not the volume's.
    assert_eq!((request.access_mode, request.read_only), (AccessMode::ReadOnlyMany, false));
    assert!(!request.is_ephemeral && request.is_attached && !request.is_republished && !request.is_migrated);
    has(&request.attributes, [("size", "1")]);
    match any(plain(), json!({}), json!({}), true) {
        DesiredVolume::Driver(volume) => assert!(volume.read_only && volume.request.unwrap().read_only),
        other => panic!("{other:?}"),
    }
    let mode = |mode: Value| {
        persistent(plain(), json!({"accessModes": mode}), json!({})).request.unwrap().access_mode
    };
    assert_eq!(mode(Value::Null), AccessMode::ReadWriteOnce);
    assert_eq!(mode(json!(["ReadWriteMany"])), AccessMode::ReadWriteMany);
    assert_eq!(mode(json!(["ReadWriteOncePod"])), AccessMode::ReadWriteOncePod);
}

#[test]
fn the_claim_of_a_volume_says_how_large_it_is() {
    let spec = || json!({"claimRef": {"namespace": "ns", "name": "data", "uid": "u"}});
    let request = |pod: TestPod, spec: Value, source: Value| persistent(pod, spec, source).request.unwrap();
    let asked = request(plain(), spec(), json!({}));
    let claim = asked.claim.unwrap();
    assert_eq!((claim.name.as_str(), asked.expand_secrets), ("data", Ok(Secrets::default())));
    assert_eq!((claim.pod.uid, claim.volume.as_str()), ("uid-1".into(), asked.spec_name.as_str()));
    assert_eq!(request(plain(), json!({}), json!({})).claim, None);
    // A Secret that is missing keeps no pod waiting.
    let source = json!({"nodeExpandSecretRef": {"namespace": "drivers", "name": "s"}});
    let asked = request(plain(), spec(), source);
    let expected = "expander.NodeExpand failed to get NodeExpandSecretRef drivers/s: kubernetes.io/csi: failed to find the secret s in the \
                    namespace drivers with error: timed out waiting for the secret \"s\"";
    assert_eq!(asked.expand_secrets.unwrap_err().to_string(), expected);
}

#[test]
fn a_driver_says_what_it_wants() {
    let request =
        |spec: Value| persistent(plain().driver(DRIVER, spec), json!({}), json!({})).request.unwrap();
    assert!(request(json!({})).is_attached && !request(json!({"attachRequired": false})).is_attached);
    assert!(request(json!({"requiresRepublish": true})).is_republished);
    let info = request(json!({"podInfoOnMount": true}));
    has(
        &info.pod_attributes,
        [
            ("csi.storage.k8s.io/pod.name", "web"),
            ("csi.storage.k8s.io/pod.namespace", "ns"),
            ("csi.storage.k8s.io/pod.uid", "uid-1"),
            ("csi.storage.k8s.io/serviceAccount.name", ""),
            ("csi.storage.k8s.io/ephemeral", "false"),
        ],
    );
    let both = json!({"podInfoOnMount": true, "volumeLifecycleModes": ["Ephemeral"]});
    let inline = inline(&plain().driver(DRIVER, both), json!({})).request.unwrap();
    assert_eq!(inline.pod_attributes["csi.storage.k8s.io/ephemeral"], "true");
}

#[test]
fn hostlet_gives_files_to_the_group_if_the_policy_permits() {
    let pod = |spec: Value| {
        let security = json!({"fsGroup": 3000, "fsGroupChangePolicy": "OnRootMismatch"});
        TestPod::new(json!({"securityContext": security})).driver(DRIVER, spec)
    };
    let own = Some((3000, GroupChange::OnRootMismatch));
    let group = |driver: Value, modes: Value, fs_type: &str, read_only: bool| {
        let (spec, source) = (json!({"accessModes": modes}), json!({"fsType": fs_type}));
        match any(pod(driver), spec, source, read_only) {
            DesiredVolume::Driver(volume) => {
                let request = volume.request.unwrap();
                assert_eq!(request.group, Some(3000), "the driver may do it whatever the policy is");
                request.own_group
            }
            other => panic!("{other:?}"),
        }
    };
    let (file, none) = (json!({"fsGroupPolicy": "File"}), json!({"fsGroupPolicy": "None"}));
    let default = json!({"fsGroupPolicy": "ReadWriteOnceWithFSType"});
    assert_eq!(group(file.clone(), json!(["ReadWriteMany"]), "", false), own);
    assert_eq!(group(file, json!(["ReadWriteMany"]), "", true), None);
    assert_eq!(group(none, json!(["ReadWriteOnce"]), "ext4", false), None);
    for policy in [default, json!({})] {
        assert_eq!(group(policy.clone(), json!(["ReadWriteOnce"]), "ext4", false), own);
        assert_eq!(group(policy.clone(), json!(["ReadOnlyMany", "ReadWriteOncePod"]), "ext4", false), own);
        assert_eq!(group(policy.clone(), json!(["ReadWriteOnce"]), "", false), None);
        assert_eq!(group(policy.clone(), json!(["ReadWriteMany"]), "ext4", false), None);
        assert_eq!(group(policy.clone(), Value::Null, "ext4", false), None);
        assert_eq!(group(policy, json!(["ReadWriteOnce"]), "ext4", true), None);
    }
    let ephemeral = pod(json!({"volumeLifecycleModes": ["Ephemeral"]}));
    assert_eq!(inline(&ephemeral, json!({"fsType": "ext4"})).request.unwrap().own_group, own);
    assert_eq!(inline(&ephemeral, json!({})).request.unwrap().own_group, None);
    let without = persistent(plain(), json!({"accessModes": ["ReadWriteOnce"]}), json!({"fsType": "ext4"}));
    let without = without.request.unwrap();
    assert_eq!((without.group, without.own_group), (None, None));
}

#[test]
fn secrets_are_those_of_the_volume_and_missing_ones_are_reported_in_upstreams_words() {
    let secret = |name: &str| json!({"name": name, "namespace": "storage"});
    let source = || json!({"nodeStageSecretRef": secret("stage"), "nodePublishSecretRef": secret("publish")});
    let known = |pod: TestPod, name: &str| {
        pod.knows_in("storage", ObjectKind::Secret, name, found(&[], &[("key", name.as_bytes())]))
    };
    let absent = || ObjectState::Failed(ObjectError::not_found(&ObjectRef::secret("x", "storage")));
    let all = known(known(plain(), "stage"), "publish");
    let request = persistent(all, json!({}), source()).request.unwrap();
    has(&request.stage_secrets.0, [("key", "stage")]);
    has(&request.publish_secrets.0, [("key", "publish")]);
    let no_stage = || known(plain(), "publish").knows_in("storage", ObjectKind::Secret, "stage", absent());
    let no_publish = || known(plain(), "stage").knows_in("storage", ObjectKind::Secret, "publish", absent());
    let why = |name| {
        format!(
            "kubernetes.io/csi: failed to find the secret {name} in the namespace storage with error: secrets \"{name}\" not found"
        )
    };
    let expected = "MountVolume.MountDevice failed for volume \"pv-1\" : fetching NodeStageSecretRef storage/stage failed: ";
    assert_eq!(text(persistent(no_stage(), json!({}), source())), format!("{expected}{}", why("stage")));
    let expected = "MountVolume.SetUp failed for volume \"pv-1\" : fetching NodePublishSecretRef storage/publish failed: ";
    assert_eq!(text(persistent(no_publish(), json!({}), source())), format!("{expected}{}", why("publish")));
    let block = || json!({"volumeMode": "Block"});
    let expected = "MapVolume.SetUpDevice failed for volume \"pv-1\" : kubernetes.io/csi: failed to get NodeStageSecretRef storage/stage: ";
    assert_eq!(text(persistent(no_stage(), block(), source())), format!("{expected}{}", why("stage")));
    let expected = "MapVolume.MapPodDevice failed for volume \"pv-1\" : kubernetes.io/csi: blockMapper.publishVolumeForBlock failed \
                    to get NodePublishSecretRef storage/publish: ";
    assert_eq!(text(persistent(no_publish(), block(), source())), format!("{expected}{}", why("publish")));
    // That of a volume in the pod is in the pod's namespace.
    let ephemeral = || plain().driver(DRIVER, json!({"volumeLifecycleModes": ["Ephemeral"]}));
    let source = || json!({"nodePublishSecretRef": {"name": "own"}});
    let own = ephemeral().knows(ObjectKind::Secret, "own", found(&[], &[("key", b"own")]));
    has(&inline(&own, source()).request.unwrap().publish_secrets.0, [("key", "own")]);
    let text = text(inline(&ephemeral(), source()));
    assert!(
        text.ends_with("in the namespace ns with error: timed out waiting for the secret \"own\""),
        "{text}"
    );
}

#[test]
fn tokens_are_written_as_upstream_writes_them() {
    let requests = json!([{"audience": ""}, {"audience": "a<b&c>", "expirationSeconds": 600}]);
    let pod = |in_secrets: bool| {
        let spec = json!({"tokenRequests": requests, "serviceAccountTokenInSecrets": in_secrets});
        plain().driver(DRIVER, spec).holds("", Ok("t0".into())).holds("a<b&c>", Ok("t1".into()))
    };
    let expected = "{\"\":{\"token\":\"t0\",\"expirationTimestamp\":\"2026-11-28T12:00:00Z\"},\
                    \"a\\u003cb\\u0026c\\u003e\":{\"token\":\"t1\",\"expirationTimestamp\":\"2026-11-28T12:00:00Z\"}}";
    let request = persistent(pod(false), json!({}), json!({})).request.unwrap();
    has(&request.pod_attributes, [(TOKENS, expected)]);
    let request = persistent(pod(true), json!({}), json!({})).request.unwrap();
    has(&request.pod_attributes, []);
    has(&request.publish_secrets.0, [(TOKENS, expected)]);
    // As upstream: devices get none.
    let request = persistent(pod(false), json!({"volumeMode": "Block"}), json!({})).request.unwrap();
    has(&request.pod_attributes, []);
    let failed = pod(false).holds("", Err(ObjectError::Forbidden("not yours".into())));
    let expected = "MountVolume.SetUp failed for volume \"pv-1\" : kubernetes.io/csi: mounter.SetUpAt failed to get service \
                    accoount token attributes: not yours";
    assert_eq!(text(persistent(failed, json!({}), json!({}))), expected);
}

#[test]
fn what_a_pod_needs_is_known_with_its_claims_and_drivers() {
    let volumes = json!([
        {"name": "i", "csi": {"driver": "inline", "nodePublishSecretRef": {"name": "own"}}},
        {"name": "p", "persistentVolumeClaim": {"claimName": "bound"}},
        {"name": "e", "ephemeral": {}}, {"name": "w", "persistentVolumeClaim": {"claimName": "waits"}}
    ]);
    let secret = |name: &str| json!({"name": name, "namespace": "storage"});
    let source = json!({"nodeStageSecretRef": secret("stage"), "nodePublishSecretRef": secret("publish")});
    let pod = TestPod::new(json!({"volumes": volumes, "serviceAccountName": "sa"})).pod;
    let claims = BTreeMap::from([
        ("bound".to_owned(), state(json!({}), source)),
        ("web-e".to_owned(), state(json!({"volumeMode": "Block"}), json!({}))),
        ("waits".to_owned(), ClaimState::Pending),
    ]);
    let mut known = KnownDrivers::default();
    let spec = json!({"tokenRequests": [{"audience": "vault"}, {"audience": "", "expirationSeconds": 600}]});
    known.specs.insert(DRIVER.into(), Arc::new(serde_json::from_value(spec).unwrap()));
    let needs = needs(&pod, &claims, &known);
    assert_eq!(needs.drivers, ["inline", DRIVER, DRIVER]);
    let secrets: Vec<_> = needs.secrets.iter().map(|it| format!("{}/{}", it.namespace, it.name)).collect();
    assert_eq!(secrets, ["storage/stage", "storage/publish"]);
    let tokens: Vec<_> = needs
        .tokens
        .iter()
        .map(|((volume, audience), token)| {
            assert_eq!((token.service_account.as_str(), token.pod_uid.as_str()), ("sa", "uid-1"));
            (volume.as_str(), audience.as_str(), token.audiences.join(","), token.expiration_seconds)
        })
        .collect();
    assert_eq!(tokens, [("p", "", String::new(), 600), ("p", "vault", "vault".to_owned(), 3600)]);
}

#[test]
fn a_device_has_no_group_no_options_and_no_label() {
    let pod = TestPod::new(json!({"securityContext": {"fsGroup": 3000}}));
    let spec = json!({"volumeMode": "Block", "mountOptions": ["ro"], "accessModes": ["ReadWriteOnce"]});
    let volume = persistent(pod, spec, json!({"fsType": "ext4"}));
    let request = volume.request.unwrap();
    assert!(volume.is_block && request.form == Form::Block);
    assert_eq!((request.group, request.own_group, request.se_linux_label), (None, None, None));
}

#[test]
fn a_volume_is_mounted_with_the_label_that_all_its_containers_have() {
    let label = |security: Value, containers: Value, driver: Value, spec: Value| {
        let mut pod = TestPod::new(json!({"securityContext": security, "containers": containers}));
        pod.file_label = Some("system_u:object_r:container_file_t:s0".to_owned());
        match any(pod.driver(DRIVER, driver), spec, json!({}), false) {
            DesiredVolume::Driver(volume) => {
                let label = volume.request.unwrap().se_linux_label;
                assert_eq!(volume.is_labelled, label.is_some());
                Ok(label)
            }
            DesiredVolume::Unprocessed(cause) => Err(cause),
            other => panic!("{other:?}"),
        }
    };
    let container = |name: &str, level: Value| json!({"name": name, "volumeMounts": [{"name": "v", "mountPath": "/v"}], "securityContext": level});
    let level = |level: &str| json!({"seLinuxOptions": {"level": level}});
    let (yes, no) = (|| json!({"seLinuxMount": true}), || json!({}));
    let one = || json!([container("a", level("s0:c1,c2"))]);
    let labelled = Ok(Some("system_u:object_r:container_file_t:s0:c1,c2".to_owned()));
    assert_eq!(label(json!({}), one(), yes(), json!({})), labelled);
    assert_eq!(label(level("s0:c1,c2"), json!([container("a", json!({}))]), yes(), json!({})), labelled);
    assert_eq!(label(json!({}), one(), no(), json!({})), Ok(None));
    assert_eq!(
        label(json!({}), one(), yes(), json!({"volumeMode": "Filesystem", "accessModes": ["ReadWriteMany"]})),
        labelled
    );
    let own_user = json!({"seLinuxOptions": {"user": "u", "level": "s0:c3"}});
    let expected = Ok(Some("u:object_r:container_file_t:s0:c3".to_owned()));
    assert_eq!(label(json!({}), json!([container("a", own_user)]), yes(), json!({})), expected);
    let recursive = json!({"seLinuxChangePolicy": "Recursive"});
    assert_eq!(label(recursive.clone(), one(), yes(), json!({})), Ok(None));
    // The runtime chooses the level.
    let type_only = json!({"seLinuxOptions": {"type": "spc_t"}});
    assert_eq!(label(json!({}), json!([container("a", type_only)]), yes(), json!({})), Ok(None));
    let two = || json!([container("a", level("s0:c1")), container("b", level("s0:c2"))]);
    let expected = "multiple SELinux labels found: system_u:object_r:container_file_t:s0:c1,\
                    system_u:object_r:container_file_t:s0:c2";
    assert_eq!(label(json!({}), two(), yes(), json!({})), Err(expected.to_owned()));
    assert_eq!(label(recursive, two(), yes(), json!({})), Ok(None));
    assert_eq!(label(json!({}), two(), no(), json!({})), Ok(None));
}
