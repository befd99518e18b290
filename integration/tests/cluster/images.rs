//! Private images and pull Secrets.

use std::collections::BTreeSet;

use hostlet_integration::cluster::Tenant;
use hostlet_integration::real::Manner;
use hostlet_integration::{Look, wait_for};
use k8s_openapi::api::core::v1::{Event, Secret};
use kube::api::ListParams;
use serde_json::{Value, json};

use crate::support::{IDLE, LATER, is_ready, pod, wait_for_pods};

/// A pod whose image is this one, with these pull Secrets.
fn pod_with_image(name: &str, image: &str, secrets: &[&str]) -> Value {
    let mut object = pod(name, IDLE);
    object["spec"]["containers"][0]["image"] = json!(image);
    object["spec"]["imagePullSecrets"] = secrets.iter().map(|name| json!({"name": name})).collect();
    object
}

#[tokio::test]
async fn a_private_image_is_pulled_with_the_pods_secrets() {
    let tenant = Tenant::new("pull-secrets", 1).await.unwrap();
    let registry = tenant.nodes[0].host().registry(Manner::Private("me:secret".to_owned())).unwrap();
    let secret = |name: &str, password: &str| {
        let config = json!({"auths": {registry.host(): {"username": "me", "password": password}}});
        json!({
            "metadata": {"name": name},
            "type": "kubernetes.io/dockerconfigjson",
            "stringData": {".dockerconfigjson": config.to_string()},
        })
    };
    tenant.create::<Secret>(secret("wrong", "guess")).await.unwrap();
    let image = registry.reference();
    tenant.create_pod(pod_with_image("late", &image, &["wrong", "right"])).await.unwrap();
    let message =
        "Unable to retrieve some image pull secrets (right); attempting to pull the image may not succeed.";
    wait_for("the missing secret to be reported", LATER, async || {
        let events = tenant.api::<Event>().list(&ListParams::default()).await?.items;
        let seen: BTreeSet<String> = events
            .into_iter()
            .map(|event| {
                format!("{} {}", event.reason.unwrap_or_default(), event.message.unwrap_or_default())
            })
            .collect();
        let reported = seen.contains(&format!("FailedToRetrieveImagePullSecret {message}"))
            && seen.iter().any(|event| event.starts_with("BackOff Back-off pulling image"));
        Ok(if reported { Look::Done(()) } else { Look::NotYet(format!("{seen:#?}")) })
    })
    .await
    .unwrap();

    tenant.create::<Secret>(secret("right", "secret")).await.unwrap();
    wait_for_pods(&tenant, "the pod runs", LATER, |pods| pods.len() == 1 && pods.iter().all(is_ready))
        .await
        .unwrap();
}
