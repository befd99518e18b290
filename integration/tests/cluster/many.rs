//! A full node of pods.

use hostlet_integration::cluster::Tenant;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{DeleteParams, ListParams};

use crate::support::{IDLE, LATER, is_ready, pod, wait_for_pods, wait_until_clean};

#[tokio::test]
async fn a_hundred_and_ten_pods_at_once_come_and_go() {
    let tenant = Tenant::new("many", 1).await.unwrap();
    for number in 0..110 {
        tenant.create_pod(pod(&format!("pod-{number}"), IDLE)).await.unwrap();
    }
    let all = |pods: &[Pod]| pods.len() == 110 && pods.iter().all(is_ready);
    wait_for_pods(&tenant, "110 ready pods", LATER, all).await.unwrap();

    tenant.api::<Pod>().delete_collection(&DeleteParams::default(), &ListParams::default()).await.unwrap();
    wait_for_pods(&tenant, "no pods", LATER, <[Pod]>::is_empty).await.unwrap();
    wait_until_clean(&tenant.nodes[0]).await.unwrap();
}
