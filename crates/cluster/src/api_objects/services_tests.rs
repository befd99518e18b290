//! Applying watch events, and the watch of Services with a faulty API server.

use std::time::Duration;

use hostlet_base::WallClock;
use kube::runtime::watcher::Event;
use serde_json::{Value, json};
use tokio::time::{sleep, timeout};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::super::cache::apply;
use super::*;
use crate::api::fake::{ApiFault, ApiRule, FakeApi};

struct Room {
    api: FakeApi,
    env: ServiceEnv,
    _running: DropGuard,
}

fn start(api: FakeApi) -> Room {
    start_with(api, Store::default())
}

fn start_with(api: FakeApi, store: Store) -> Room {
    let (task, env) = cached_services(api.client(), store);
    let cancel = CancellationToken::new();
    #[expect(clippy::disallowed_methods, reason = "a task of a test")]
    tokio::spawn(task.run(cancel.clone()));
    Room { api, env, _running: cancel.drop_guard() }
}

fn put(api: &FakeApi, service: &Service) {
    let (namespace, name) =
        (service.metadata.namespace.clone().unwrap(), service.metadata.name.clone().unwrap());
    api.put(&format!("/api/v1/namespaces/{namespace}/services/{name}"), service);
}

impl Room {
    fn host(&self, variable: &str) -> Option<String> {
        self.env.variables("shop", true)?.remove(variable)
    }

    async fn until(&self, variable: &str, value: Option<&str>) {
        let waited = timeout(Duration::from_secs(600), async {
            while self.host(variable).as_deref() != value {
                sleep(Duration::from_millis(1)).await;
            }
        });
        assert!(waited.await.is_ok(), "{variable} is {:?}, not {value:?}", self.host(variable));
    }
}

fn service(namespace: &str, name: &str, spec: Value) -> Service {
    let metadata = json!({"namespace": namespace, "name": name});
    serde_json::from_value(json!({"metadata": metadata, "spec": spec})).unwrap()
}

fn kubernetes() -> Service {
    let ports = json!([{"name": "https", "port": 443}]);
    service("default", "kubernetes", json!({"clusterIP": "10.96.0.1", "ports": ports}))
}

fn web(address: &str) -> Service {
    service("shop", "web", json!({"clusterIP": address, "ports": [{"port": 80}]}))
}

#[test]
fn services_change_lose_their_address_are_deleted_or_missing_from_a_list() {
    let host = |known: &KnownServices| known.variables("shop", true).remove("WEB_SERVICE_HOST");
    let mut listing = KnownServices::default();
    let mut apply = |known: &mut KnownServices, event| apply(known, &mut listing, event);
    let mut known = KnownServices::default();
    apply(&mut known, Event::Init);
    apply(&mut known, Event::InitApply(web("10.0.0.1")));
    assert!(!known.is_listed());
    apply(&mut known, Event::InitDone);
    assert!(known.is_listed());
    assert_eq!(host(&known).as_deref(), Some("10.0.0.1"));
    apply(&mut known, Event::Apply(web("10.0.0.2")));
    assert_eq!(host(&known).as_deref(), Some("10.0.0.2"));
    apply(&mut known, Event::Apply(web("None")));
    assert_eq!(host(&known), None);
    apply(&mut known, Event::Apply(web("10.0.0.3")));
    apply(&mut known, Event::Delete(web("10.0.0.3")));
    assert_eq!(host(&known), None);
    apply(&mut known, Event::Apply(web("10.0.0.4")));
    apply(&mut known, Event::Init);
    assert_eq!(host(&known).as_deref(), Some("10.0.0.4"), "unchanged until the new list is complete");
    apply(&mut known, Event::InitDone);
    assert_eq!(host(&known), None);
    assert!(known.is_listed());
    // Without ports there is still a host variable.
    apply(&mut known, Event::Apply(service("shop", "bare", json!({"clusterIP": "10.0.0.5"}))));
    let bare = [("BARE_SERVICE_HOST".to_owned(), "10.0.0.5".to_owned())];
    assert_eq!(known.variables("shop", true), bare.into());
}

#[tokio::test(start_paused = true)]
async fn the_first_list_is_awaited_and_later_changes_are_known_at_once() {
    let api = FakeApi::new(WallClock::system());
    put(&api, &kubernetes());
    put(&api, &service("shop", "headless", json!({"clusterIP": "None"})));
    let room = start(api);
    assert_eq!(room.env.variables("shop", true), None);
    timeout(Duration::from_secs(1), room.env.first_answer()).await.unwrap();
    assert_eq!(room.host("KUBERNETES_SERVICE_HOST").as_deref(), Some("10.96.0.1"));
    for address in ["10.0.0.1", "10.0.0.2"] {
        put(&room.api, &web(address));
        sleep(Duration::from_millis(20)).await;
        assert_eq!(room.host("WEB_SERVICE_HOST").as_deref(), Some(address));
    }
    room.api.delete("/api/v1/namespaces/shop/services/web", None);
    room.until("WEB_SERVICE_HOST", None).await;
    assert!(room.env.is_listed());
}

#[tokio::test(start_paused = true)]
async fn the_wait_for_an_unresponsive_server_is_bounded() {
    let api = FakeApi::new(WallClock::system());
    put(&api, &web("10.0.0.1"));
    api.fail(ApiRule { times: 3, ..ApiRule::always("WATCH", "/services", ApiFault::Hang) });
    let room = start(api);
    timeout(Duration::from_secs(11), room.env.first_answer()).await.unwrap();
    assert!(!room.env.is_listed());
    let again = timeout(Duration::from_millis(1), room.env.first_answer()).await;
    assert!(again.is_ok(), "each container waits anew");
    timeout(Duration::from_secs(120), room.env.listed()).await.unwrap();
    assert_eq!(room.host("WEB_SERVICE_HOST").as_deref(), Some("10.0.0.1"));
}

#[tokio::test(start_paused = true)]
async fn changes_survive_faults_and_known_services_remain() {
    let room = start(FakeApi::new(WallClock::system()));
    room.env.listed().await;
    let reject = |code, reason| ApiFault::Reject { code, reason, retry_after: 1 };
    let faults = [
        ApiFault::CutWatch(1),
        ApiFault::HalfOpenWatch(0),
        ApiFault::Hang,
        ApiFault::Reset,
        reject(410, "Expired"),
        reject(429, "TooManyRequests"),
        reject(403, "Forbidden"),
    ];
    for (number, fault) in faults.into_iter().enumerate() {
        room.api.fail(ApiRule { times: 2, ..ApiRule::always("WATCH", "/services", fault) });
        room.api.compact();
        let address = format!("10.0.0.{number}");
        put(&room.api, &web(&address));
        assert!(room.env.is_listed());
        room.until("WEB_SERVICE_HOST", Some(&address)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_restarted_daemon_without_its_api_server_uses_the_stored_services() {
    let api = FakeApi::new(WallClock::system());
    for known in [kubernetes(), web("10.0.0.1"), service("shop", "gone", json!({"clusterIP": "10.0.0.9"}))] {
        put(&api, &known);
    }
    let store = Store::default();
    let room = start_with(api, store.clone());
    room.until("WEB_SERVICE_HOST", Some("10.0.0.1")).await;
    put(&room.api, &web("10.0.0.2"));
    room.api.delete("/api/v1/namespaces/shop/services/gone", None);
    room.until("WEB_SERVICE_HOST", Some("10.0.0.2")).await;
    room.until("GONE_SERVICE_HOST", None).await;
    let variables = room.env.variables("shop", true);
    drop(room);

    let away = FakeApi::new(WallClock::system());
    away.fail(ApiRule::always("", "", ApiFault::Reset));
    let next = start_with(away, store.copy());
    assert_eq!(next.env.variables("shop", true), variables);
}
