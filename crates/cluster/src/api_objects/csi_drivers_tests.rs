//! CSIDriver objects with a fake API server.

use std::time::Duration;

use hostlet_base::{WallClock, watching};
use serde_json::{Value, json};
use tokio::time::{Instant, timeout};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::*;
use crate::api::fake::{ApiFault, ApiRule, FakeApi};

fn start(api: &FakeApi, store: Store) -> (DriverObjects, DropGuard) {
    let (task, drivers) = cached_csi_drivers(api.client(), store);
    let cancel = CancellationToken::new();
    #[expect(clippy::disallowed_methods, reason = "a task of a test")]
    tokio::spawn(task.run(cancel.clone()));
    (drivers, cancel.drop_guard())
}

fn put(api: &FakeApi, name: &str, spec: Value) {
    let driver: CSIDriver =
        serde_json::from_value(json!({"metadata": {"name": name}, "spec": spec})).unwrap();
    api.put(&format!("/apis/storage.k8s.io/v1/csidrivers/{name}"), &driver);
}

async fn until(drivers: &DriverObjects, holds: impl Fn(&KnownDrivers) -> bool) {
    let mut known = drivers.subscribe();
    timeout(Duration::from_secs(600), watching::becomes(&mut known, |known| holds(known))).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn specs_are_known_with_the_first_list_and_follow_their_objects() {
    let api = FakeApi::new(WallClock::system());
    put(&api, "disk.example.com", json!({"attachRequired": true, "storageCapacity": true}));
    let (drivers, _running) = start(&api, Store::default());
    let all = ["disk.example.com", "other"].map(str::to_owned);
    drivers.settled(&all).await;
    let known = drivers.now();
    assert!(known.is_listed);
    let spec = &known.specs["disk.example.com"];
    assert_eq!((spec.attach_required, spec.storage_capacity), (Some(true), None), "only what is used");
    put(&api, "disk.example.com", json!({"attachRequired": true, "nodeAllocatableUpdatePeriodSeconds": 60}));
    let has_period = |known: &KnownDrivers| {
        known.specs["disk.example.com"].node_allocatable_update_period_seconds.is_some()
    };
    until(&drivers, has_period).await;
    api.delete("/apis/storage.k8s.io/v1/csidrivers/disk.example.com", None);
    until(&drivers, |known| known.specs.is_empty()).await;
}

#[tokio::test(start_paused = true)]
async fn without_the_api_server_the_objects_of_the_earlier_daemon_serve() {
    let api = FakeApi::new(WallClock::system());
    put(&api, "nfs.example.com", json!({"attachRequired": false, "fsGroupPolicy": "File"}));
    let store = Store::default();
    let (drivers, running) = start(&api, store.clone());
    until(&drivers, |known| known.is_listed).await;
    drop(running);

    api.fail(ApiRule::always("", "/csidrivers", ApiFault::Reset));
    let (drivers, _running) = start(&api, store.copy());
    let begin = Instant::now();
    drivers.settled(&["nfs.example.com".to_owned()]).await;
    assert_eq!(begin.elapsed(), Duration::ZERO, "it is known");
    assert_eq!(drivers.now().specs["nfs.example.com"].fs_group_policy.as_deref(), Some("File"));
    timeout(Duration::from_secs(11), drivers.settled(&["other".to_owned()])).await.unwrap();
    assert!(!drivers.now().is_listed);
}
