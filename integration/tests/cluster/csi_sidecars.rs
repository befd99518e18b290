//! A CSI driver with the sidecars that real drivers have: volumes are created for claims, attached, used, detached and deleted.

use hostlet_integration::cluster::CsiSidecar;
use hostlet_integration::{Look, wait_for};
use k8s_openapi::api::core::v1::{Node as ApiNode, PersistentVolume, PersistentVolumeClaim, Pod};
use k8s_openapi::api::storage::v1::{StorageClass, VolumeAttachment};
use kube::Api;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use serde_json::json;

use crate::csi::{Bed, WRITES, user};
use crate::support::{LATER, assert_undisturbed, delete, run, uid, wait_for_object, wait_until_gone};

/// Creates a claim of 64 MiB for which the driver of the bed creates a volume, and the storage class for that.
async fn create_claim(bed: &Bed, name: &str) {
    let classes: Api<StorageClass> = Api::all(bed.tenant.client());
    let class = json!({
        "metadata": {"name": bed.name}, "provisioner": bed.name, "allowVolumeExpansion": true, "reclaimPolicy": "Delete",
        "volumeBindingMode": "WaitForFirstConsumer", "parameters": {"csi.storage.k8s.io/fstype": "ext4"},
    });
    classes.create(&PostParams::default(), &serde_json::from_value(class).unwrap()).await.unwrap();
    let claim = json!({
        "metadata": {"name": name},
        "spec": {
            "accessModes": ["ReadWriteOnce"], "storageClassName": bed.name, "resources": {"requests": {"storage": "64Mi"}},
        },
    });
    bed.tenant.create::<PersistentVolumeClaim>(claim).await.unwrap();
}

/// The attachments of the bed's driver.
async fn attachments(bed: &Bed) -> Vec<VolumeAttachment> {
    let all: Api<VolumeAttachment> = Api::all(bed.tenant.client());
    let all = all.list(&ListParams::default()).await.unwrap().items;
    all.into_iter().filter(|attachment| attachment.spec.attacher == bed.name).collect()
}

/// Waits until no volume of the driver is attached, and the node says that none is in use.
async fn wait_until_detached(bed: &Bed) {
    wait_for("the volume is detached", LATER, async || {
        let left = attachments(bed).await;
        Ok(if left.is_empty() { Look::Done(()) } else { Look::NotYet(format!("{left:?}")) })
    })
    .await
    .unwrap();
    let nodes: Api<ApiNode> = Api::all(bed.tenant.client());
    let has_none = |node: &ApiNode| {
        let status = node.status.clone().unwrap_or_default();
        status.volumes_in_use.unwrap_or_default().is_empty()
            && status.volumes_attached.unwrap_or_default().is_empty()
    };
    wait_for_object(&nodes, bed.node().name(), LATER, has_none).await.unwrap();
}

/// Deletes the claim, and waits until the volume is deleted as well.
async fn delete_claim(bed: &Bed, name: &str, volume: &str) {
    bed.tenant.api::<PersistentVolumeClaim>().delete(name, &DeleteParams::default()).await.unwrap();
    wait_until_gone(&Api::<PersistentVolume>::all(bed.tenant.client()), volume).await.unwrap();
    assert!(bed.count("DeleteVolume").unwrap() >= 1);
    let classes: Api<StorageClass> = Api::all(bed.tenant.client());
    classes.delete(&bed.name, &DeleteParams::default()).await.unwrap();
}

#[tokio::test]
async fn a_volume_is_created_attached_used_twice_detached_and_deleted() {
    let bed = Bed::new("csi-sidecars", json!({"attachRequired": true}), &["--image"]).await.unwrap();
    let cluster = bed.tenant.cluster();
    let _provisioner = CsiSidecar::start(cluster, "provisioner", &bed.driver).unwrap();
    let _attacher = CsiSidecar::start(cluster, "attacher", &bed.driver).unwrap();
    create_claim(&bed, "db").await;

    let first = run(&bed.tenant, user("first", WRITES, &["db"])).await.unwrap();
    let claims = bed.tenant.api::<PersistentVolumeClaim>();
    let volume = claims.get("db").await.unwrap().spec.unwrap().volume_name.unwrap();
    let volumes: Api<PersistentVolume> = Api::all(bed.tenant.client());
    let source = volumes.get(&volume).await.unwrap().spec.unwrap().csi.unwrap();
    assert_eq!(source.driver, bed.name);
    let attached = attachments(&bed).await;
    let status = attached[0].status.clone().unwrap();
    assert!(attached.len() == 1 && status.attached, "{attached:?}");
    assert_eq!(attached[0].spec.node_name, bed.node().name());
    assert_eq!(status.attachment_metadata.unwrap()["attachedTo"], bed.node().name());
    let unique = format!("kubernetes.io/csi/{}^{}", bed.name, source.volume_handle);
    let nodes: Api<ApiNode> = Api::all(bed.tenant.client());
    let status = nodes.get(bed.node().name()).await.unwrap().status.unwrap();
    assert_eq!(status.volumes_in_use.unwrap(), std::slice::from_ref(&unique));
    assert_eq!(status.volumes_attached.unwrap()[0].name, unique);
    let directory = bed.node().root_dir().join("pods").join(uid(&first)).join("volumes/kubernetes.io~csi");
    assert!(directory.join(&volume).join("mount/pods").exists());

    delete(&bed.tenant, "first", None).await.unwrap();
    wait_until_gone(&bed.tenant.api::<Pod>(), "first").await.unwrap();
    wait_until_detached(&bed).await;
    let second = run(&bed.tenant, user("second", WRITES, &["db"])).await.unwrap();
    let directory = bed.node().root_dir().join("pods").join(uid(&second)).join("volumes/kubernetes.io~csi");
    let pods = std::fs::read_to_string(directory.join(&volume).join("mount/pods")).unwrap();
    assert_eq!(pods, "first\nsecond\n");
    delete(&bed.tenant, "second", None).await.unwrap();
    wait_until_gone(&bed.tenant.api::<Pod>(), "second").await.unwrap();
    wait_until_detached(&bed).await;
    delete_claim(&bed, "db", &volume).await;
    // A sidecar may repeat a call whose result it has not seen yet.
    for (call, least) in
        [("CreateVolume", 1), ("ControllerPublishVolume", 2), ("ControllerUnpublishVolume", 2)]
    {
        assert!(bed.count(call).unwrap() >= least, "{call}: {:?}", bed.driver.calls().unwrap());
    }
    bed.end().await.unwrap();
}

#[tokio::test]
async fn a_volume_grows_while_a_pod_uses_it() {
    // Of directories: growing a mounted ext4 takes CAP_SYS_RESOURCE, which some hosts of these tests lack.
    let bed = Bed::new("csi-grows", json!({"attachRequired": false}), &["--no-attach"]).await.unwrap();
    let cluster = bed.tenant.cluster();
    let _provisioner = CsiSidecar::start(cluster, "provisioner", &bed.driver).unwrap();
    let _resizer = CsiSidecar::start(cluster, "resizer", &bed.driver).unwrap();
    create_claim(&bed, "db").await;
    let made = run(&bed.tenant, user("grows", WRITES, &["db"])).await.unwrap();
    let claims = bed.tenant.api::<PersistentVolumeClaim>();
    let volume = claims.get("db").await.unwrap().spec.unwrap().volume_name.unwrap();

    let larger = json!({"spec": {"resources": {"requests": {"storage": "128Mi"}}}});
    claims.patch("db", &PatchParams::default(), &Patch::Merge(larger)).await.unwrap();
    let has_grown = |claim: &PersistentVolumeClaim| {
        let status = claim.status.clone().unwrap_or_default();
        status.capacity.is_some_and(|capacity| capacity["storage"].0 == "128Mi")
            && !status
                .conditions
                .unwrap_or_default()
                .iter()
                .any(|condition| condition.type_.contains("Resiz"))
            && status.allocated_resource_statuses.unwrap_or_default().is_empty()
    };
    wait_for_object(&claims, "db", LATER, has_grown).await.unwrap();
    assert!(bed.count("NodeExpandVolume").unwrap() >= 1);
    assert_undisturbed(&bed.tenant, &made).await.unwrap();
    delete(&bed.tenant, "grows", None).await.unwrap();
    wait_until_gone(&bed.tenant.api::<Pod>(), "grows").await.unwrap();
    delete_claim(&bed, "db", &volume).await;
    bed.end().await.unwrap();
}
