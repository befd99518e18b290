//! Pods that need objects of the cluster, on an in-memory node: they start as soon as the objects are available.

use std::sync::Arc;
use std::time::Duration;

use hostlet_base::CONFIG_SOURCE_ANNOTATION;
use hostlet_observe::status::{Activity, READY_TO_START};
use hostlet_pod::AdmittedPod;
use hostlet_pod::objects::services::{KnownService, KnownServices, ServiceEnv};
use hostlet_pod::objects::{KnownClasses, Object, ObjectError, ObjectKind, ObjectState, RuntimeClasses};
use hostlet_runtime::cri::Operation;
use k8s_openapi::api::core::v1::{PodSpec, Service};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::sleep;

use super::testing::{Node, pod};

const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);
/// Far less than any back-off.
const AT_ONCE: Duration = Duration::from_millis(100);

/// A pod with these additional fields in its spec.
fn pod_that(fields: Value) -> Arc<AdmittedPod> {
    let pod = pod("web", "u1", &["c"]);
    let mut json = serde_json::to_value(pod.spec()).unwrap();
    for (field, value) in fields.as_object().unwrap() {
        json[field] = value.clone();
    }
    pod.edited(|pod| pod.spec = Some(serde_json::from_value::<PodSpec>(json).unwrap()))
}

#[tokio::test(start_paused = true)]
async fn a_pod_with_a_missing_volume_object_starts_once_it_exists() {
    let mut node = Node::new();
    let volumes = json!([{"name": "v", "configMap": {"name": "cm"}}]);
    node.want([pod_that(json!({"volumes": volumes}))]);
    node.until("it is reported", SECOND, |n| {
        matches!(n.activity("u1"), Some(Activity::Retrying { error: Some(error) }) if error.contains("not found"))
    })
    .await;
    let cause = |node: &Node| {
        let conditions = node.status("u1").unwrap().conditions.clone().unwrap_or_default();
        conditions.into_iter().find(|condition| condition.type_ == READY_TO_START)?.message
    };
    let wanted =
        "no pod sandbox exists: MountVolume.SetUp failed for volume \"v\" : configmap \"cm\" not found";
    assert_eq!(cause(&node).as_deref(), Some(wanted));
    sleep(MINUTE).await;
    assert!(!node.has("u1"));
    assert_eq!(cause(&node).as_deref(), Some(wanted));
    node.objects.put(ObjectKind::ConfigMap, "default", "cm", &[("k", "v")]);
    node.until("it runs", AT_ONCE, |n| n.running("u1").len() == 1).await;
    node.until("it waits no more", SECOND, |node| cause(node).is_none()).await;
    // Deleted while it runs: reported, without affecting the running container.
    let refused = ObjectState::Failed(ObjectError::Forbidden("no".into()));
    node.objects.set(ObjectKind::ConfigMap, "default", "cm", refused);
    sleep(MINUTE).await;
    assert_eq!(node.changes_of("u1").len(), 3);
}

/// A pod whose container has a variable from a ConfigMap.
fn pod_with_variable() -> Arc<AdmittedPod> {
    let source = json!({"configMapKeyRef": {"name": "cm", "key": "k"}});
    let env = json!([{"name": "A", "valueFrom": source}]);
    let container = json!({"name": "c", "image": "img", "imagePullPolicy": "IfNotPresent", "env": env});
    pod_that(json!({"containers": [container]}))
}

/// The waiting reason and message of the pod's container.
fn waits(node: &Node) -> Option<(String, String)> {
    let status = node.status("u1")?;
    let waiting = status.container_statuses.as_ref()?[0].state.as_ref()?.waiting.clone()?;
    Some((waiting.reason?, waiting.message.unwrap_or_default()))
}

/// The variable's value in the newest container.
fn variable(node: &Node) -> Option<String> {
    let newest = node.containers().pop()?;
    let config = node.runtime.container_config(&newest.id.as_str().into())?;
    config
        .envs
        .into_iter()
        .find(|variable| variable.key == "A")
        .map(|variable| String::from_utf8(variable.value).unwrap())
}

fn config_error(message: &str) -> Option<(String, String)> {
    Some(("CreateContainerConfigError".to_owned(), message.to_owned()))
}

#[tokio::test(start_paused = true)]
async fn a_container_with_a_missing_environment_object_starts_once_it_exists() {
    let mut node = Node::new();
    node.want([pod_with_variable()]);
    let absent = config_error("configmap \"cm\" not found");
    node.until("it is reported", SECOND, |n| waits(n) == absent).await;
    sleep(MINUTE).await;
    node.objects.put(ObjectKind::ConfigMap, "default", "cm", &[("other", "x")]);
    let keyless = config_error("couldn't find key k in ConfigMap default/cm");
    node.until("the key is missed", AT_ONCE, |n| waits(n) == keyless).await;
    node.objects.put(ObjectKind::ConfigMap, "default", "cm", &[("k", "one")]);
    node.until("it runs", AT_ONCE, |n| n.running("u1").len() == 1).await;
    assert_eq!(variable(&node).as_deref(), Some("one"));
    // A running container keeps its value; its successor gets the last known one, even without the server.
    let before = node.changes_of("u1").len();
    node.objects.put(ObjectKind::ConfigMap, "default", "cm", &[("k", "two")]);
    sleep(5 * MINUTE).await;
    assert_eq!(node.changes_of("u1").len(), before);
    let container = node.containers().remove(0).id;
    node.runtime.exit_container(&container.as_str().into(), 1);
    node.until("it was restarted", MINUTE, |n| n.running("u1") == [("c".to_owned(), 1)]).await;
    assert_eq!(variable(&node).as_deref(), Some("two"));
    assert_eq!(node.objects.watchers(ObjectKind::ConfigMap, "default", "cm"), 1);
    node.want([]);
    node.until("it is gone", MINUTE, |n| !n.has("u1")).await;
    assert_eq!(node.objects.watchers(ObjectKind::ConfigMap, "default", "cm"), 0);
}

#[tokio::test(start_paused = true)]
async fn a_hanging_api_server_delays_only_a_start() {
    let mut node = Node::new();
    node.objects.set(ObjectKind::ConfigMap, "default", "cm", ObjectState::Pending);
    let pod = pod_with_variable();
    node.want([pod.clone()]);
    let pending = config_error("timed out waiting for the configmap \"cm\"");
    node.until("it is reported", 11 * SECOND, |n| waits(n) == pending).await;
    sleep(MINUTE).await;
    node.objects.put(ObjectKind::ConfigMap, "default", "cm", &[("k", "v")]);
    node.until("it runs", AT_ONCE, |n| n.running("u1").len() == 1).await;
    node.want([]);
    node.until("it is gone", MINUTE, |n| !n.has("u1") && n.status("u1").is_none()).await;

    // Removed while its start waits for the first response.
    node.objects.set(ObjectKind::ConfigMap, "default", "cm", ObjectState::Pending);
    node.want([pod]);
    node.until("it has a sandbox", SECOND, |n| n.has("u1")).await;
    node.want([]);
    node.until("it is gone", 5 * SECOND, |n| !n.has("u1")).await;
}

#[tokio::test(start_paused = true)]
async fn a_pod_of_the_cluster_starts_once_services_are_known_and_a_static_pod_before() {
    let kubernetes = json!({"spec": {"clusterIP": "10.96.0.1", "ports": [{"name": "https", "port": 443}]}});
    let kubernetes: Service = serde_json::from_value(kubernetes).unwrap();
    let (services, known_services) = watch::channel(KnownServices::default());
    let mut node = Node::new();
    node.stop().await;
    node.service_env = ServiceEnv::new(known_services);
    node.boot();
    let of_cluster = pod_that(json!({}));
    let of_cluster = of_cluster.edited(|pod| {
        let annotations = pod.metadata.annotations.as_mut().unwrap();
        annotations.insert(CONFIG_SOURCE_ANNOTATION.to_owned(), "api".to_owned());
    });
    node.want([of_cluster, pod("static", "u2", &["c"])]);
    node.until("the static pod runs", SECOND, |n| n.running("u2").len() == 1).await;
    let unknown = config_error("services have not yet been read at least once, cannot construct envvars");
    node.until("it is reported", 11 * SECOND, |n| waits(n) == unknown).await;
    assert!(node.running("u1").is_empty());
    // Waits for a newer relist: with paused time only the next second's counts.
    sleep(2 * SECOND).await;
    services.send_modify(|services| {
        services.set("default", "kubernetes", KnownService::new(kubernetes));
        services.set_listed();
    });
    node.until("it runs", AT_ONCE, |n| n.running("u1").len() == 1).await;
    let container = node.containers().into_iter().find(|c| c.uid == "u1").unwrap();
    let envs = node.runtime.container_config(&container.id.as_str().into()).unwrap().envs;
    let host = envs.iter().find(|variable| variable.key == "KUBERNETES_SERVICE_HOST").unwrap();
    assert_eq!((host.value.as_slice(), envs.len()), (b"10.96.0.1".as_slice(), 8));
}

/// A pod with a private image and these pull Secrets.
fn pod_with_private_image(secrets: &[&str]) -> Arc<AdmittedPod> {
    let container = json!({"name": "c", "image": "r.io/private:1", "imagePullPolicy": "Always"});
    let secrets: Vec<Value> = secrets.iter().map(|name| json!({"name": name})).collect();
    pod_that(json!({"containers": [container], "imagePullSecrets": secrets}))
}

fn pull_secret(password: &str) -> ObjectState {
    let config = json!({"auths": {"r.io": {"username": "me", "password": password}}}).to_string();
    ObjectState::Found(Arc::new(Object {
        binary: [(".dockerconfigjson".to_owned(), config.into_bytes())].into(),
        secret_type: "kubernetes.io/dockerconfigjson".to_owned(),
        ..Object::default()
    }))
}

#[tokio::test(start_paused = true)]
async fn pulls_try_the_pull_secrets_in_order() {
    let mut node = Node::new();
    node.runtime.require_login("r.io/private:1", "me", "right");
    node.objects.set(ObjectKind::Secret, "default", "old", pull_secret("wrong"));
    node.objects.set(ObjectKind::Secret, "default", "new", pull_secret("right"));
    node.want([pod_with_private_image(&["old", "", "new"])]);
    node.until("it runs", SECOND, |n| n.running("u1").len() == 1).await;
    assert_eq!(node.runtime.calls_of(Operation::PullImage).len(), 2);
    assert_eq!(node.events_of("u1", "FailedToRetrieveImagePullSecret"), 0);
    assert_eq!(node.objects.watchers(ObjectKind::Secret, "default", "new"), 1);
    node.want([]);
    node.until("it is gone", MINUTE, |n| !n.has("u1")).await;
    assert_eq!(node.objects.watchers(ObjectKind::Secret, "default", "new"), 0);
}

#[tokio::test(start_paused = true)]
async fn a_missing_pull_secret_is_reported_only_after_a_failed_pull() {
    let mut node = Node::new();
    node.want([pod_with_private_image(&["absent"])]);
    node.until("it runs without", SECOND, |n| n.running("u1").len() == 1).await;
    assert_eq!(node.events_of("u1", "FailedToRetrieveImagePullSecret"), 0);

    let mut node = Node::new();
    node.runtime.require_login("r.io/private:1", "me", "right");
    node.want([pod_with_private_image(&["absent"])]);
    node.until("it is reported", SECOND, |n| n.events_of("u1", "FailedToRetrieveImagePullSecret") == 1).await;
    assert!(matches!(waits(&node), Some((reason, _)) if reason == "ErrImagePull"));
    assert_eq!(node.doing("u1").unwrap().missing_secrets, ["absent"]);
    // Once it exists, the next pull uses it.
    node.objects.set(ObjectKind::Secret, "default", "absent", pull_secret("right"));
    node.until("it runs", MINUTE, |n| n.running("u1").len() == 1).await;
}

#[tokio::test(start_paused = true)]
async fn a_private_image_is_only_for_pods_with_its_credentials_also_after_a_restart() {
    let mut node = Node::new();
    node.runtime.require_login("r.io/private:1", "me", "right");
    node.objects.set(ObjectKind::Secret, "default", "right", pull_secret("right"));
    node.objects.set(ObjectKind::Secret, "default", "wrong", pull_secret("wrong"));
    let pod_of = |uid: &str, policy: &str, secrets: &[&str]| {
        let container = json!({"name": "c", "image": "r.io/private:1", "imagePullPolicy": policy});
        let secrets: Vec<Value> = secrets.iter().map(|name| json!({"name": name})).collect();
        let mut json = serde_json::to_value(pod(uid, uid, &["c"]).spec()).unwrap();
        (json["containers"], json["imagePullSecrets"]) = (json!([container]), json!(secrets));
        let spec: PodSpec = serde_json::from_value(json).unwrap();
        pod(uid, uid, &["c"]).edited(|pod| pod.spec = Some(spec.clone()))
    };
    let reason = |node: &Node, uid: &str| {
        let status = node.status(uid)?;
        status.container_statuses.as_ref()?[0].state.as_ref()?.waiting.clone()?.reason
    };
    let mut wanted = vec![pod_of("owner", "IfNotPresent", &["right"])];
    node.want(wanted.clone());
    node.until("the first pod runs", SECOND, |n| n.running("owner").len() == 1).await;
    for restarted in [false, true] {
        let name = |name: &str| format!("{name}-{restarted}");
        if restarted {
            node.sync_store();
            node.stop().await;
            node.boot();
        }
        wanted.push(pod_of(&name("none"), "IfNotPresent", &[]));
        wanted.push(pod_of(&name("wrong"), "IfNotPresent", &["wrong"]));
        wanted.push(pod_of(&name("never"), "Never", &[]));
        node.want(wanted.clone());
        for pod in ["none", "wrong"] {
            let is_refused = |n: &Node| reason(n, &name(pod)).as_deref() == Some("ErrImagePull");
            node.until("the registry refuses it", SECOND, is_refused).await;
        }
        let is_hidden = |n: &Node| reason(n, &name("never")).as_deref() == Some("ErrImageNeverPull");
        node.until("it does not learn that the image is present", SECOND, is_hidden).await;
        let before = node.runtime.calls_of(Operation::PullImage).len();
        wanted.push(pod_of(&name("same"), "Never", &["right"]));
        node.want(wanted.clone());
        node.until("one with the Secret runs", SECOND, |n| n.running(&name("same")).len() == 1).await;
        assert_eq!(node.runtime.calls_of(Operation::PullImage).len(), before);
    }
}

#[tokio::test(start_paused = true)]
async fn a_pod_whose_runtime_class_is_missing_starts_with_its_handler_once_it_exists() {
    let listed = KnownClasses { is_listed: true, ..KnownClasses::default() };
    let (classes, known_classes) = watch::channel(listed);
    let mut node = Node::new();
    node.stop().await;
    node.runtime_classes = RuntimeClasses::new(known_classes);
    node.boot();
    node.want([pod_that(json!({"runtimeClassName": "sandboxed"}))]);
    let missing = "Failed to create pod sandbox: runtimeclass.node.k8s.io \"sandboxed\" not found";
    node.until(
        "it is reported",
        SECOND,
        |n| matches!(n.activity("u1"), Some(Activity::Retrying { error: Some(error) }) if error == missing),
    )
    .await;
    assert!(!node.has("u1"));
    // Waits for a newer relist: with paused time only the next second's counts.
    sleep(2 * SECOND).await;
    classes.send_modify(|classes| drop(classes.handlers.insert("sandboxed".into(), "kata".into())));
    node.until("it runs", AT_ONCE, |n| n.running("u1").len() == 1).await;
    let handlers: Vec<String> =
        node.runtime.wire_sandboxes().into_iter().map(|sandbox| sandbox.runtime_handler).collect();
    assert_eq!(handlers, ["kata"]);
}
