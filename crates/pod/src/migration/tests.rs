//! The cases of the tests of k8s.io/csi-translation-lib, with the values that they expect.

use serde_json::{Value, json};

use super::*;

const ZONE: &str = "topology.kubernetes.io/zone";
const REGION: &str = "topology.kubernetes.io/region";
const BETA_ZONE: &str = "failure-domain.beta.kubernetes.io/zone";
const BETA_REGION: &str = "failure-domain.beta.kubernetes.io/region";

fn translated(metadata: &Value, spec: &Value) -> Result<Value, String> {
    let volume = serde_json::from_value(json!({"metadata": metadata, "spec": spec})).unwrap();
    let volume: PersistentVolume = volume;
    let is_of_driver = volume.spec.as_ref().is_some_and(|spec| spec.csi.is_some());
    let translated = migrated(volume).map_err(|error| error.to_string())?;
    let annotations = translated.metadata.annotations.as_ref();
    let driver = translated.spec.as_ref().and_then(|spec| spec.csi.as_ref()).filter(|_| !is_of_driver);
    let expected = driver.map(|source| &source.driver);
    assert_eq!(annotations.and_then(|all| all.get(MIGRATED_TO)), expected);
    Ok(serde_json::to_value(translated.spec).unwrap())
}

/// The name and the spec of the volume.
fn inline(source: &Value, namespace: &str) -> Result<(String, Value), String> {
    let mut volume = json!({"name": "name"});
    volume.as_object_mut().unwrap().extend(source.as_object().unwrap().clone());
    let volume = serde_json::from_value(volume).unwrap();
    let volume = migrated_inline(&volume, namespace).map_err(|error| error.to_string())?.unwrap();
    Ok((volume.metadata.name.unwrap(), serde_json::to_value(volume.spec).unwrap()))
}

/// A spec as it is after the translation of a volume in a pod.
fn expected_inline(csi: &Value, mode: &str) -> Value {
    json!({"csi": csi, "accessModes": [mode], "volumeMode": "Filesystem"})
}

#[test]
fn other_types_stay() {
    let spec = json!({"csi": {"driver": "d", "volumeHandle": "h"}, "accessModes": ["ReadWriteOnce"]});
    assert_eq!(translated(&json!({"labels": {ZONE: "z"}}), &spec), Ok(spec));
    assert_eq!(migrated(PersistentVolume::default()), Ok(PersistentVolume::default()));
    let volume = serde_json::from_value(json!({"name": "n", "emptyDir": {}})).unwrap();
    assert_eq!(migrated_inline(&volume, "ns"), Ok(None));
}

#[test]
fn ebs_volumes_have_three_forms() {
    const ID: &str = "vol-02399794d890f9375";
    for id in [ID, "aws:///vol-02399794d890f9375", "aws://us-west-2a/vol-02399794d890f9375"] {
        let source = json!({"awsElasticBlockStore": {"volumeID": id, "fsType": "ext3", "partition": 1, "readOnly": true}});
        let csi = json!({"driver": "ebs.csi.aws.com", "volumeHandle": ID, "fsType": "ext3", "readOnly": true,
            "volumeAttributes": {"partition": "1"}});
        assert_eq!(translated(&json!({}), &source), Ok(json!({"csi": csi})));
        let expected =
            ("ebs.csi.aws.com-vol-02399794d890f9375".to_owned(), expected_inline(&csi, "ReadWriteOnce"));
        assert_eq!(inline(&source, ""), Ok(expected));
    }
    let invalid = json!({"awsElasticBlockStore": {"volumeID": "aws://us-west-2a/02399794d890f9375"}});
    let error = "failed to translate Kubernetes ID to EBS Volume ID Invalid format for AWS volume (aws://us-west-2a/02399794d890f9375)";
    assert_eq!(translated(&json!({}), &invalid), Err(error.to_owned()));
    assert_eq!(inline(&invalid, ""), Err(error.to_owned()));
}

#[test]
fn gce_disks_are_zonal_or_regional() {
    let disk = json!({"gcePersistentDisk": {"pdName": "pd-name"}});
    let handle = |labels: Value| -> Result<String, String> {
        let spec = translated(&json!({"labels": labels}), &disk)?;
        Ok(spec["csi"]["volumeHandle"].as_str().unwrap().to_owned())
    };
    for key in [BETA_ZONE, ZONE] {
        let zonal = "projects/UNSPECIFIED/zones/us-east1-a/disks/pd-name";
        assert_eq!(handle(json!({key: "us-east1-a"})), Ok(zonal.to_owned()));
        let regional = "projects/UNSPECIFIED/regions/us-central1/disks/pd-name";
        assert_eq!(handle(json!({key: "us-central1-a__us-central1-c"})), Ok(regional.to_owned()));
    }
    assert_eq!(handle(json!({})), Ok("projects/UNSPECIFIED/zones/UNSPECIFIED/disks/pd-name".to_owned()));
    let error = handle(json!({ZONE: "us-east1-a__us-central1-c"})).unwrap_err();
    let text = "failed to get region from zones: multiple or no regions gotten from zones, got: map[us-central1:{} us-east1:{}]";
    assert_eq!(error, text);
    let error = handle(json!({ZONE: "a__b"})).unwrap_err();
    assert!(error.ends_with("expected: {locale}-{region}-{zone}, got: a"), "{error}");
}

#[test]
fn gce_disks_in_a_pod_are_read_only_or_not() {
    for (read_only, mode) in [(true, "ReadOnlyMany"), (false, "ReadWriteOnce")] {
        let source = json!({"gcePersistentDisk": {"pdName": "test-disk", "fsType": "ext4", "readOnly": read_only,
            "partition": 2}});
        let mut csi = json!({"driver": "pd.csi.storage.gke.io", "fsType": "ext4",
            "volumeHandle": "projects/UNSPECIFIED/zones/UNSPECIFIED/disks/test-disk",
            "volumeAttributes": {"partition": "2"}});
        if read_only {
            csi["readOnly"] = json!(true);
        }
        let expected = ("pd.csi.storage.gke.io-test-disk".to_owned(), expected_inline(&csi, mode));
        assert_eq!(inline(&source, ""), Ok(expected));
    }
}

#[test]
fn access_modes_of_gce_disks_are_those_that_its_driver_takes() {
    const ROX: &str = "ReadOnlyMany";
    const RWO: &str = "ReadWriteOnce";
    const RWX: &str = "ReadWriteMany";
    for (modes, expected) in [
        (&[ROX][..], ROX),
        (&[RWO], RWO),
        (&[RWX], RWO),
        (&[ROX, RWO], RWO),
        (&[RWO, RWX], RWO),
        (&[RWX, ROX], RWO),
        (&[RWX, RWO, ROX], RWO),
        (&[], RWO),
        (&["ReadWriteOncePod"], RWO),
        (&[ROX, "ReadWriteOncePod"], ROX),
    ] {
        let modes: Vec<String> = modes.iter().map(|mode| (*mode).to_owned()).collect();
        assert_eq!(disks::gce_access_modes(&modes), [expected], "{modes:?}");
    }
    let spec = translated(&json!({}), &json!({"gcePersistentDisk": {"pdName": "d"}})).unwrap();
    assert!(spec.get("accessModes").is_none(), "none stay none");
}

#[test]
fn azure_disks_are_managed_ones() {
    const URI: &str = "/subscriptions/12/resourceGroups/23/providers/Microsoft.Compute/disks/name";
    let source = json!({"azureDisk": {"diskName": "name", "diskURI": URI, "cachingMode": "cachingmode",
        "fsType": "fstype", "readOnly": true}});
    let csi = json!({"driver": "disk.csi.azure.com", "volumeHandle": URI, "fsType": "fstype", "readOnly": true,
        "volumeAttributes": {"cachingmode": "cachingmode", "fstype": "fstype", "kind": "Managed"}});
    assert_eq!(translated(&json!({}), &source), Ok(json!({"csi": csi})));
    let bare = json!({"azureDisk": {"diskName": "diskname", "diskURI": "datadiskuri", "kind": "managed"}});
    let csi = json!({"driver": "disk.csi.azure.com", "volumeHandle": "datadiskuri", "volumeAttributes": {"kind": "Managed"}});
    let expected = ("datadiskuri".to_owned(), expected_inline(&csi, "ReadWriteOnce"));
    assert_eq!(inline(&bare, ""), Ok(expected));
    let blob = json!({"azureDisk": {"diskName": "d", "diskURI": "u", "kind": "Dedicated"}});
    let error = "kind(Dedicated) is not supported in csi migration".to_owned();
    assert_eq!((translated(&json!({}), &blob), inline(&blob, "")), (Err(error.clone()), Err(error)));
}

#[test]
fn azure_file_shares_have_a_secret_in_some_namespace() {
    let csi = |handle: &str, namespace: &str| {
        json!({"driver": "file.csi.azure.com", "volumeHandle": handle, "readOnly": true,
            "nodeStageSecretRef": {"name": "secretname", "namespace": namespace},
            "volumeAttributes": {"sharename": "sharename"}})
    };
    let share = |namespace: Value| {
        json!({"azureFile": {"shareName": "sharename", "secretName": "secretname", "readOnly": true,
            "secretNamespace": namespace}})
    };
    let grouped = json!({"name": "uuid", "annotations": {"kubernetes.io/azure-file-resource-group": "rg"}});
    let error = "could not find a secret namespace in PersistentVolumeSource or ClaimRef";
    assert_eq!(translated(&grouped, &share(Value::Null)), Err(error.to_owned()));
    let named = share(json!("secretnamespace"));
    let expected = csi("#secretname#sharename#uuid#secretnamespace", "secretnamespace");
    assert_eq!(translated(&json!({"name": "uuid"}), &named), Ok(json!({"csi": expected})));
    let expected = csi("rg#secretname#sharename#uuid#secretnamespace", "secretnamespace");
    assert_eq!(translated(&grouped, &named), Ok(json!({"csi": expected})));
    let mut claimed = share(Value::Null);
    claimed["claimRef"] = json!({"namespace": "secretnamespace"});
    assert_eq!(translated(&grouped, &claimed).unwrap()["csi"], expected);

    let source =
        json!({"azureFile": {"readOnly": true, "secretName": "secretname", "shareName": "sharename"}});
    for (pod_namespace, namespace) in [("", "default"), ("test", "test")] {
        let handle = format!("#secretname#sharename#name#{namespace}");
        let spec = expected_inline(&csi(&handle, namespace), "ReadWriteMany");
        assert_eq!(inline(&source, pod_namespace), Ok((handle, spec)));
    }
}

#[test]
fn the_storage_account_is_in_the_name_of_the_secret() {
    for (secret, account) in [
        ("azure-storage-account-accountname-secret", "accountname"),
        ("azure-storage-account-accountname-dup-secret", "accountname-dup"),
        ("invalid", "invalid"),
        ("azure-storage-account--secret", "azure-storage-account--secret"),
    ] {
        let source = json!({"azureFile": {"secretName": secret, "shareName": "s"}});
        let (name, _) = inline(&source, "ns").unwrap();
        assert_eq!(name, format!("#{account}#s#name#ns"));
    }
}

#[test]
fn vsphere_volumes_have_a_policy_and_topology() {
    const PATH: &str =
        "[vsanDatastore] 6785a85e-268e-6352-a2e8-02008b7afadd/kubernetes-dynamic-pvc-68734c9f.vmdk";
    let source = json!({"vsphereVolume": {"volumePath": PATH, "fsType": "ext4",
        "storagePolicyName": "vSAN Default Storage Policy"}});
    let csi = json!({"driver": "csi.vsphere.vmware.com", "volumeHandle": PATH, "fsType": "ext4",
        "volumeAttributes": {"storagepolicyname": "vSAN Default Storage Policy"}});
    assert_eq!(translated(&json!({}), &source), Ok(json!({"csi": csi})));
    let requirement = |key: &str, value: &str| json!({"key": key, "operator": "In", "values": [value]});
    let topology = [
        requirement("topology.csi.vmware.com/zone", "z1"),
        requirement("topology.csi.vmware.com/region", "r1"),
    ];
    for (zone, region) in [(BETA_ZONE, BETA_REGION), (ZONE, REGION)] {
        let labels = json!({"labels": {zone: "z1", region: "r1"}});
        let spec = translated(&labels, &source).unwrap();
        let terms = &spec["nodeAffinity"]["required"]["nodeSelectorTerms"];
        assert_eq!(*terms, json!([{"matchExpressions": topology}]));
    }
    let source = json!({"vsphereVolume": {"volumePath": "[vsanDatastore] volume/inlinevolume.vmdk", "fsType": "ext4"}});
    let csi = json!({"driver": "csi.vsphere.vmware.com", "fsType": "ext4",
        "volumeHandle": "[vsanDatastore] volume/inlinevolume.vmdk"});
    let name = "csi.vsphere.vmware.com-[vsanDatastore] volume/inlinevolume.vmdk".to_owned();
    assert_eq!(inline(&source, ""), Ok((name, expected_inline(&csi, "ReadWriteOnce"))));
}

#[test]
fn portworx_volumes_have_secrets_in_annotations() {
    let source = json!({"portworxVolume": {"volumeID": "ID1111", "fsType": "type"}});
    let csi = json!({"driver": "pxd.portworx.com", "volumeHandle": "ID1111", "fsType": "type"});
    assert_eq!(translated(&json!({}), &source), Ok(json!({"csi": csi})));
    let expected = ("pxd.portworx.com-ID1111".to_owned(), expected_inline(&csi, "ReadWriteOnce"));
    assert_eq!(inline(&source, "ns"), Ok(expected));
    let annotations = json!({"openstorage.io/auth-secret-name": "test-secret",
        "openstorage.io/auth-secret-namespace": "test-namespace"});
    let mut csi = csi;
    for field in ["controllerPublish", "nodeStage", "nodePublish", "controllerExpand", "nodeExpand"] {
        csi[format!("{field}SecretRef")] = json!({"name": "test-secret", "namespace": "test-namespace"});
    }
    assert_eq!(translated(&json!({"annotations": annotations}), &source), Ok(json!({"csi": csi})));
}

/// A requirement of one of these values.
fn zones(key: &str, zones: &[&str]) -> Value {
    json!({"key": key, "operator": "In", "values": zones})
}

/// The node selector terms after a translation.
fn terms(source: &Value, labels: &Value, terms: &[Value]) -> Value {
    let mut spec = source.clone();
    if !terms.is_empty() {
        spec["nodeAffinity"] = json!({"required": {"nodeSelectorTerms": terms}});
    }
    let spec = translated(&json!({"labels": labels}), &spec).unwrap();
    spec["nodeAffinity"]["required"]["nodeSelectorTerms"].clone()
}

#[test]
fn zones_become_the_drivers() {
    let gce = json!({"gcePersistentDisk": {"pdName": "d"}});
    let ebs = json!({"awsElasticBlockStore": {"volumeID": "vol-1"}});
    let cinder = json!({"cinder": {"volumeID": "v"}});
    for (source, key) in [
        (&gce, "topology.gke.io/zone"),
        (&ebs, "topology.ebs.csi.aws.com/zone"),
        (&cinder, "topology.cinder.csi.openstack.org/zone"),
    ] {
        let of = |values: &[&str]| json!([{"matchExpressions": [zones(key, values)]}]);
        let term = |key: &str, values: &[&str]| [json!({"matchExpressions": [zones(key, values)]})];
        let none = json!({});
        for zone in [BETA_ZONE, ZONE] {
            let labeled = json!({zone: "us-east1-a", "other": "x"});
            assert_eq!(terms(source, &labeled, &[]), of(&["us-east1-a"]), "{zone}");
            assert_eq!(
                terms(source, &labeled, &term(zone, &["us-east2-a"])),
                of(&["us-east2-a"]),
                "affinity counts"
            );
            let regional = json!({zone: "europe-west1-c__europe-west1-b"});
            assert_eq!(terms(source, &regional, &[]), of(&["europe-west1-b", "europe-west1-c"]));
            let two = term(zone, &["europe-west1-b", "europe-west1-c"]);
            assert_eq!(terms(source, &none, &two), of(&["europe-west1-b", "europe-west1-c"]));
        }
        assert_eq!(
            terms(source, &none, &term(key, &["us-east2-a"])),
            of(&["us-east2-a"]),
            "the driver's already"
        );
        assert_eq!(terms(source, &none, &[]), Value::Null);
    }
}

#[test]
fn all_terms_are_translated_and_old_regions_become_new() {
    let gce = json!({"gcePersistentDisk": {"pdName": "d"}});
    let key = "topology.gke.io/zone";
    let two = [ZONE; 2].map(|zone| json!({"matchExpressions": [zones(zone, &["europe-west1-f"])]}));
    let expected = json!([{"matchExpressions": [zones(key, &["europe-west1-f"])]},
        {"matchExpressions": [zones(key, &["europe-west1-f"])]}]);
    assert_eq!(terms(&gce, &json!({}), &two), expected);
    let old =
        [json!({"matchExpressions": [zones(BETA_ZONE, &["us-west2-b"]), zones(BETA_REGION, &["us-west2"])]})];
    let expected = json!([{"matchExpressions": [zones(key, &["us-west2-b"]), zones(REGION, &["us-west2"])]}]);
    let labels = json!({ZONE: "us-east1-a", REGION: "us-east1"});
    assert_eq!(terms(&gce, &labels, &old), expected);
    let new = [json!({"matchExpressions": [zones(ZONE, &["us-east1-a"]), zones(REGION, &["us-east1"])]})];
    let expected = json!([{"matchExpressions": [zones(key, &["us-east1-a"]), zones(REGION, &["us-east1"])]}]);
    assert_eq!(terms(&gce, &labels, &new), expected);
}
