//! Runtime classes with a fake API server.

use std::time::Duration;

use hostlet_base::WallClock;
use hostlet_pod::objects::RuntimeClassError;
use serde_json::json;
use tokio::time::{sleep, timeout};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::*;
use crate::api::fake::{ApiFault, ApiRule, FakeApi};

fn start(api: &FakeApi, store: Store) -> (RuntimeClasses, DropGuard) {
    let (task, classes) = cached_runtime_classes(api.client(), store);
    let cancel = CancellationToken::new();
    #[expect(clippy::disallowed_methods, reason = "a task of a test")]
    tokio::spawn(task.run(cancel.clone()));
    (classes, cancel.drop_guard())
}

fn put_class(api: &FakeApi, name: &str, handler: &str) {
    let class: RuntimeClass =
        serde_json::from_value(json!({"metadata": {"name": name}, "handler": handler})).unwrap();
    api.put(&format!("/apis/node.k8s.io/v1/runtimeclasses/{name}"), &class);
}

#[tokio::test(start_paused = true)]
async fn a_class_is_known_with_the_first_list_and_a_new_one_at_once() {
    let api = FakeApi::new(WallClock::system());
    put_class(&api, "sandboxed", "kata");
    let (classes, _running) = start(&api, Store::default());
    assert_eq!(classes.handler("sandboxed").await.as_deref(), Ok("kata"));
    let error = classes.handler("fast").await.unwrap_err();
    assert_eq!(error.to_string(), r#"runtimeclass.node.k8s.io "fast" not found"#);
    put_class(&api, "fast", "crun");
    timeout(Duration::from_secs(1), classes.appears("fast")).await.unwrap();
    assert_eq!(classes.handler("fast").await.as_deref(), Ok("crun"));
    api.delete("/apis/node.k8s.io/v1/runtimeclasses/fast", None);
    let deleted = async {
        while classes.known("fast").is_some() {
            sleep(Duration::from_millis(1)).await;
        }
    };
    timeout(Duration::from_secs(1), deleted).await.unwrap();
    assert_eq!(classes.known("sandboxed").as_deref(), Some("kata"));
}

#[tokio::test(start_paused = true)]
async fn without_the_api_server_the_classes_of_the_earlier_daemon_serve() {
    let api = FakeApi::new(WallClock::system());
    put_class(&api, "sandboxed", "kata");
    let store = Store::default();
    let (classes, running) = start(&api, store.clone());
    classes.appears("sandboxed").await;
    drop(running);

    api.fail(ApiRule::always("", "/runtimeclasses", ApiFault::Reset));
    let (classes, _running) = start(&api, store.copy());
    assert_eq!(classes.handler("sandboxed").await.as_deref(), Ok("kata"));
    let other = timeout(Duration::from_secs(11), classes.handler("other")).await.unwrap();
    assert_eq!(other, Err(RuntimeClassError::Unread("other".to_owned())));
}
