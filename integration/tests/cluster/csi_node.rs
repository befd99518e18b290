//! What a node says of its CSI drivers.

use hostlet_integration::cluster::Tenant;
use hostlet_integration::{Look, wait_for};
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::api::storage::v1::CSINode;
use kube::Api;
use kube::api::DeleteParams;

use crate::support::{SOON, wait_until_gone};

/// In-tree volume types whose volumes CSI drivers serve.
const MIGRATED: &str = "kubernetes.io/aws-ebs,kubernetes.io/azure-disk,kubernetes.io/azure-file,kubernetes.io/cinder,\
                        kubernetes.io/gce-pd,kubernetes.io/portworx-volume,kubernetes.io/vsphere-volume";

fn is_owned_by(csi_node: &CSINode, node: &Node) -> bool {
    let mut owners = csi_node.metadata.owner_references.iter().flatten();
    owners.any(|owner| owner.kind == "Node" && Some(&owner.uid) == node.metadata.uid.as_ref())
}

#[tokio::test]
async fn a_ready_node_has_a_csi_node_which_returns_after_its_deletion() {
    let mut tenant = Tenant::new("csinode", 1).await.unwrap();
    let client = tenant.client();
    let (nodes, csi_nodes) = (Api::<Node>::all(client.clone()), Api::<CSINode>::all(client.clone()));
    let name = tenant.nodes[0].name().to_owned();
    let first = nodes.get(&name).await.unwrap();
    let csi_node = csi_nodes.get(&name).await.unwrap();
    assert!(is_owned_by(&csi_node, &first), "{csi_node:?}");
    let annotations = csi_node.metadata.annotations.clone().unwrap();
    assert_eq!(annotations["storage.alpha.kubernetes.io/migrated-plugins"], MIGRATED);
    assert!(csi_node.spec.drivers.is_empty());

    // A restart changes nothing.
    tenant.nodes[0].stop_agent().await.unwrap();
    tenant.nodes[0].start_agent().unwrap();
    tenant.nodes[0].wait_until_ready(&client).await.unwrap();
    let version = |csi_node: &CSINode| csi_node.metadata.resource_version.clone();
    assert_eq!(version(&csi_nodes.get(&name).await.unwrap()), version(&csi_node));

    tenant.nodes[0].stop_agent().await.unwrap();
    csi_nodes.delete(&name, &DeleteParams::default()).await.unwrap();
    tenant.nodes[0].start_agent().unwrap();
    wait_for_csi_node(&csi_nodes, &name, &first).await;

    // The garbage collector deletes the CSINode of a Node that was deleted, sooner or later.
    tenant.nodes[0].stop_agent().await.unwrap();
    nodes.delete(&name, &DeleteParams::default()).await.unwrap();
    wait_until_gone(&nodes, &name).await.unwrap();
    tenant.nodes[0].start_agent().unwrap();
    let second = tenant.nodes[0].wait_until_ready(&client).await.unwrap();
    assert_ne!(second.metadata.uid, first.metadata.uid);
    wait_for_csi_node(&csi_nodes, &name, &second).await;
}

/// Waits until a Node has its CSINode.
async fn wait_for_csi_node(csi_nodes: &Api<CSINode>, name: &str, node: &Node) {
    let found = wait_for("the CSINode", SOON, async || {
        let found = csi_nodes.get_opt(name).await?;
        Ok(match found {
            Some(found) if is_owned_by(&found, node) => Look::Done(()),
            other => Look::NotYet(format!("{other:?}")),
        })
    });
    found.await.unwrap();
}
