//! Creation and adoption of the Node.

use std::net::IpAddr;

use hostlet_base::WallClock;
use hostlet_store::Store;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, Taint};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity as Amount;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

use super::adopt::adopt;
use super::{FormerDevices, Registered, attempt, initial};
use crate::api::fake::{ApiFault, ApiRule, FakeApi};
use crate::api::{ApiErrorKind, TypedApi, Wire};
use crate::node::NodeSettings;
use crate::node::testing::{facts, settings};

const PATH: &str = "/api/v1/nodes/node1";

fn made(settings: &NodeSettings) -> Node {
    initial(settings, &facts(), Timestamp::UNIX_EPOCH).0
}

fn json_of(node: &Node) -> Value {
    serde_json::to_value(node).unwrap()
}

fn tainted() -> NodeSettings {
    let mut settings = settings();
    let taint = Taint { key: "a".to_owned(), effect: "NoExecute".to_owned(), ..Taint::default() };
    settings.node.taints = vec![taint];
    settings.node.labels = [("pool".to_owned(), "blue".to_owned())].into();
    settings
}

#[test]
fn a_node_is_created_as_by_the_stock_kubelet() {
    let stock: Value = serde_json::from_str(include_str!("../status/testdata/stock_node.json")).unwrap();
    let node = json_of(&made(&settings()));
    assert_eq!(node["metadata"]["name"], "node1");
    assert_eq!(node["metadata"]["labels"], stock["metadata"]["labels"]);
    assert_eq!(
        node["metadata"]["annotations"],
        json!({"volumes.kubernetes.io/controller-managed-attach-detach": "true"})
    );
    assert_eq!(node["spec"], json!({}));
    assert_eq!(node["status"]["capacity"], stock["status"]["capacity"]);
}

#[test]
fn a_node_has_the_configured_labels_taints_and_provider() {
    let mut settings = tainted();
    settings.node.labels.insert("kubernetes.io/hostname".to_owned(), "other".to_owned());
    settings.node.provider_id = Some("cloud://7".to_owned());
    settings.node.controller_attach_detach = false;
    let node = json_of(&made(&settings));
    assert_eq!(node["metadata"]["labels"]["pool"], "blue");
    assert_eq!(node["metadata"]["labels"]["kubernetes.io/hostname"], "other");
    assert_eq!(node["metadata"]["annotations"], Value::Null);
    assert_eq!(
        node["spec"],
        json!({"providerID": "cloud://7", "taints": [{"key": "a", "effect": "NoExecute"}]})
    );
    settings.node.external_cloud = true;
    settings.node_ips = vec![IpAddr::from([10, 77, 0, 1]), IpAddr::from([0; 16])];
    let node = json_of(&made(&settings));
    assert_eq!(
        node["spec"]["taints"][1],
        json!({"key": "node.cloudprovider.kubernetes.io/uninitialized", "value": "true", "effect": "NoSchedule"})
    );
    assert_eq!(node["metadata"]["annotations"], json!({"alpha.kubernetes.io/provided-node-ip": "10.77.0.1"}));
}

#[test]
fn a_node_that_is_up_to_date_is_not_patched() {
    let node = made(&tainted());
    assert_eq!(adopt(&node, &node), None);
}

#[test]
fn an_adopted_node_gets_facts_and_keeps_the_rest() {
    let existing: Node = serde_json::from_value(json!({
        "metadata": {
            "name": "node1", "uid": "u",
            "labels": {"kubernetes.io/arch": "z80", "theirs": "x", "pool": "red"},
            "annotations": {"alpha.kubernetes.io/provided-node-ip": "1.2.3.4", "theirs": "y"},
        },
        "spec": {"podCIDR": "10.1.0.0/24", "taints": [{"key": "theirs", "effect": "NoSchedule"}]},
    }))
    .unwrap();
    let mut settings = tainted();
    settings.node.provider_id = Some("cloud://7".to_owned());
    let patch = adopt(&made(&settings), &existing).unwrap();
    let arch = hostlet_base::architecture();
    assert_eq!(
        patch,
        json!({
            "metadata": {
                "uid": "u",
                "labels": {
                    "beta.kubernetes.io/arch": arch, "beta.kubernetes.io/os": "linux", "kubernetes.io/arch": arch,
                    "kubernetes.io/hostname": "node1", "kubernetes.io/os": "linux",
                },
                "annotations": {
                    "alpha.kubernetes.io/provided-node-ip": null,
                    "volumes.kubernetes.io/controller-managed-attach-detach": "true",
                },
            },
            "spec": {"providerID": "cloud://7"},
        })
    );
    let mut known = existing;
    known.spec.as_mut().unwrap().provider_id = Some("cloud://6".to_owned());
    assert_eq!(adopt(&made(&settings), &known).unwrap()["spec"], Value::Null, "it cannot be changed");
}

fn none() -> FormerDevices {
    FormerDevices::default()
}

fn server() -> (FakeApi, TypedApi<Node>) {
    let api = FakeApi::new(WallClock::system());
    let nodes = TypedApi::all(api.client());
    (api, nodes)
}

#[tokio::test(start_paused = true)]
async fn a_node_created_by_a_lost_request_is_adopted_by_the_next() {
    let (api, nodes) = server();
    let (settings, node) = (tainted(), made(&tainted()));
    api.fail(ApiRule::once("POST", "/nodes", ApiFault::LostAnswer));
    assert!(attempt(&nodes, &node, settings.request_timeout(), &none()).await.is_err());
    let Ok(Registered::Adopted(_)) = attempt(&nodes, &node, settings.request_timeout(), &none()).await else {
        panic!("the node that was made is adopted");
    };
    assert!(api.requests_of("PATCH", PATH).is_empty(), "it is as we made it");
    let stored: Node = api.get(PATH).unwrap();
    assert_eq!(stored.spec.unwrap().taints.unwrap().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn without_permission_to_create_nodes_an_existing_one_is_adopted() {
    let (api, nodes) = server();
    let (settings, node) = (tainted(), made(&tainted()));
    let forbidden = ApiFault::Reject { code: 403, reason: "Forbidden", retry_after: 0 };
    api.fail(ApiRule::always("POST", "/nodes", forbidden));
    let refused = attempt(&nodes, &node, settings.request_timeout(), &none()).await;
    assert!(refused.is_err_and(|error| error.error_kind() == ApiErrorKind::Forbidden));
    let bare: Node = serde_json::from_value(json!({"metadata": {"name": "node1"}})).unwrap();
    api.put(PATH, &bare);
    assert!(attempt(&nodes, &node, settings.request_timeout(), &none()).await.is_ok());
    let stored: Node = api.get(PATH).unwrap();
    assert_eq!(stored.metadata.labels.unwrap()["kubernetes.io/hostname"], "node1");
    assert_eq!(stored.spec.and_then(|spec| spec.taints), None, "taints are for the making of a node");
}

#[tokio::test(start_paused = true)]
async fn extended_resources_of_a_former_kubelet_are_set_to_zero() {
    let (api, nodes) = server();
    let node = made(&settings());
    let mut former = node.clone();
    let status = former.status.get_or_insert_default();
    for resources in [&mut status.capacity, &mut status.allocatable] {
        let resources = resources.get_or_insert_default();
        for (name, amount) in [("nvidia.com/gpu", "4"), ("example.com/gone", "0")] {
            resources.insert(name.to_owned(), Amount(amount.to_owned()));
        }
    }
    api.put(PATH, &former);
    let limit = settings().request_timeout();
    let devices = FormerDevices::new(Store::default());
    devices.expect();
    let Ok(Registered::Adopted(adopted)) = attempt(&nodes, &node, limit, &devices).await else {
        panic!("the node that is there is adopted");
    };
    let stored: Node = api.get(PATH).unwrap();
    for node in [adopted, stored] {
        let status = node.status.unwrap();
        for resources in [status.capacity.unwrap(), status.allocatable.unwrap()] {
            assert_eq!((&*resources["nvidia.com/gpu"].0, &*resources["cpu"].0), ("0", "2"));
        }
    }
    // What an administrator sets later stays, also when hostlet registers again.
    let later =
        json!({"status": {"capacity": {"nvidia.com/gpu": "3"}, "allocatable": {"nvidia.com/gpu": "3"}}});
    let Wire(_) = nodes.patch_status("node1", &PatchParams::default(), &Patch::Merge(later)).await.unwrap();
    assert!(attempt(&nodes, &node, limit, &devices).await.is_ok());
    let status = api.get::<Node>(PATH).unwrap().status.unwrap();
    for resources in [status.capacity.unwrap(), status.allocatable.unwrap()] {
        assert_eq!(resources["nvidia.com/gpu"].0, "3");
    }
}

#[tokio::test(start_paused = true)]
async fn an_attempt_times_out() {
    let (api, nodes) = server();
    api.fail(ApiRule::once("POST", "/nodes", ApiFault::Hang));
    let hung = attempt(&nodes, &made(&settings()), settings().request_timeout(), &none()).await;
    assert!(hung.is_err_and(|error| error.to_string().contains("within 10s")));
}
