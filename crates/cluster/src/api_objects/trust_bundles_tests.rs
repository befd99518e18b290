//! Trust bundles with a fake API server.

use hostlet_base::WallClock;
use hostlet_net::tls::fake::FakeAuthority;
use hostlet_pod::objects::ObjectSource;
use serde_json::{Value, json};
use tokio::time::timeout;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::*;
use crate::api::fake::{ApiFault, ApiRule, FakeApi};
use crate::api_objects::{ApiObjects, OfflineObjects, ProjectionDeps};

const PATIENCE: Duration = Duration::from_secs(900);

struct Room {
    api: FakeApi,
    objects: ApiObjects,
    _running: DropGuard,
}

fn start() -> Room {
    let api = FakeApi::new(WallClock::of_tokio("2026-11-21T07:00:00Z".parse().unwrap()));
    let projections = ProjectionDeps { trust_bundles: true, ..ProjectionDeps::default() };
    let (task, objects) = ApiObjects::new(api.client(), OfflineObjects::default(), projections);
    let cancel = CancellationToken::new();
    #[expect(clippy::disallowed_methods, reason = "a task of a test")]
    tokio::spawn(task.run(cancel.clone()));
    Room { api, objects, _running: cancel.drop_guard() }
}

fn path(version: &str, name: &str) -> String {
    format!("/apis/certificates.k8s.io/{version}/clustertrustbundles/{name}")
}

impl Room {
    fn put(&self, name: &str, signer: Option<&str>, label: &str, anchors: &[&str]) {
        let spec = json!({"signerName": signer, "trustBundle": anchors.concat()});
        let metadata = json!({"name": name, "labels": {"tier": label}});
        self.api.put(&path("v1", name), &json!({"metadata": metadata, "spec": spec}));
    }

    fn watch(&self, bundles: &TrustBundleRef) -> watch::Receiver<TrustBundleState> {
        self.objects.watch_trust_bundles(bundles)
    }
}

fn named(name: &str) -> TrustBundleRef {
    TrustBundleRef::Named(name.to_owned())
}

fn of_signer(selector: Option<&str>) -> TrustBundleRef {
    TrustBundleRef::OfSigner { signer: "example.com/s".to_owned(), selector: selector.map(str::to_owned) }
}

fn certificates(count: usize) -> Vec<String> {
    let mut all: Vec<String> = (0..count).map(|_| FakeAuthority::new().certificate().unwrap()).collect();
    all.sort();
    all
}

/// Number of bundles, and their certificates in order.
fn content(state: &TrustBundleState) -> Option<(usize, Vec<String>)> {
    let TrustBundleState::Known(anchors) = state else { return None };
    let blocks = anchors.pem.split_inclusive("-----END CERTIFICATE-----\n").map(str::to_owned);
    let mut blocks: Vec<String> = blocks.collect();
    blocks.sort();
    Some((anchors.bundles, blocks))
}

async fn until(known: &mut watch::Receiver<TrustBundleState>, bundles: usize, expected: &[&str]) {
    let expected = Some((bundles, expected.iter().map(|one| (*one).to_owned()).collect()));
    let waited = timeout(PATIENCE, known.wait_for(|state| content(state) == expected)).await.is_ok();
    assert!(waited, "{:?}", known.borrow());
}

#[tokio::test(start_paused = true)]
async fn a_named_bundle_is_normalized_and_followed_while_it_is_used() {
    let room = start();
    let [a, b] = certificates(2).try_into().unwrap();
    let mut known = room.watch(&named("ca"));
    until(&mut known, 0, &[]).await;
    room.put("other", None, "x", &[&b]);
    room.put("ca", None, "x", &["noise\n", &a, &a, "\n\n", &b, &a]);
    until(&mut known, 1, &[&a, &b]).await;
    room.put("ca", None, "x", &[&b]);
    until(&mut known, 1, &[&b]).await;
    room.api.delete(&path("v1", "ca"), None);
    until(&mut known, 0, &[]).await;
    drop(known);
    sleep(Duration::from_secs(1)).await;
    let requests = room.api.requests().len();
    room.put("ca", None, "x", &[&a]);
    sleep(PATIENCE).await;
    assert_eq!(room.api.requests().len(), requests, "nobody uses it");
}

#[tokio::test(start_paused = true)]
async fn the_bundles_of_a_signer_are_those_whose_labels_are_selected() {
    let room = start();
    let [a, b, c] = certificates(3).try_into().unwrap();
    room.put("example.com:s:one", Some("example.com/s"), "live", &[&a, &b]);
    room.put("example.com:s:two", Some("example.com/s"), "canary", &[&b]);
    room.put("example.com:t:one", Some("example.com/t"), "live", &[&c]);
    let mut all = room.watch(&of_signer(Some("")));
    until(&mut all, 2, &[&a, &b]).await;
    let mut live = room.watch(&of_signer(Some("tier=live")));
    until(&mut live, 1, &[&a, &b]).await;
    let mut none = room.watch(&of_signer(None));
    until(&mut none, 0, &[]).await;
    room.put("example.com:s:two", Some("example.com/s"), "canary", &[&c]);
    until(&mut all, 2, &[&a, &b, &c]).await;
    until(&mut live, 1, &[&a, &b]).await;
    room.api.delete(&path("v1", "example.com:s:one"), None);
    until(&mut all, 1, &[&c]).await;
}

#[test]
fn the_order_is_stable_for_one_daemon_and_not_that_of_the_bundle() {
    let all = certificates(8);
    let bundle = |certificates: &[String]| -> Bundles {
        [("b".to_owned(), certificates.iter().flat_map(|one| ders_of(one)).collect())].into()
    };
    let reversed: Vec<String> = all.iter().rev().cloned().collect();
    let order = RandomState::new();
    let pem =
        |certificates: &[String], order: &RandomState| anchors(&bundle(certificates), order).unwrap().pem;
    assert_eq!(pem(&all, &order), pem(&reversed, &order));
    // Of 8! orders, twenty daemons do not all have the same.
    let orders: BTreeSet<String> = (0..20).map(|_| pem(&all, &RandomState::new())).collect();
    assert!(orders.len() > 1);
}

#[tokio::test(start_paused = true)]
async fn the_version_of_the_server_is_followed_through_an_upgrade() {
    let room = start();
    let [a] = certificates(1).try_into().unwrap();
    room.api.serve_certificates(&[]);
    let mut known = room.watch(&named("ca"));
    let lacks = |state: &TrustBundleState| {
        matches!(state, TrustBundleState::Failed(ObjectError::Unavailable(error))
            if error.starts_with("the API server has no ClusterTrustBundles: they need"))
    };
    timeout(PATIENCE, known.wait_for(lacks)).await.expect("the error").unwrap();
    room.api.serve_certificates(&["v1beta1"]);
    let bundle = |version: &str| -> Value {
        json!({"apiVersion": format!("certificates.k8s.io/{version}"), "kind": "ClusterTrustBundle",
            "metadata": {"name": "ca"}, "spec": {"trustBundle": a}})
    };
    room.api.put(&path("v1beta1", "ca"), &bundle("v1beta1"));
    until(&mut known, 1, &[&a]).await;
    room.api.put(&path("v1", "ca"), &bundle("v1"));
    room.api.serve_certificates(&["v1"]);
    room.api.fail(ApiRule::once("WATCH", "/v1beta1/clustertrustbundles", ApiFault::EndWatch(0)));
    room.api.compact();
    let wait = async {
        while room.api.requests_of("WATCH", "/v1/clustertrustbundles").is_empty() {
            sleep(Duration::from_secs(1)).await;
        }
    };
    timeout(PATIENCE, wait).await.expect("a watch in the new version");
    until(&mut known, 1, &[&a]).await;
}

#[tokio::test(start_paused = true)]
async fn a_failure_is_published_unless_the_anchors_are_known() {
    let room = start();
    let [a] = certificates(1).try_into().unwrap();
    room.put("ca", None, "x", &[&a]);
    let denied = ApiFault::Reject { code: 403, reason: "Forbidden", retry_after: 0 };
    room.api.fail(ApiRule::always("", "/clustertrustbundles", denied.clone()));
    let mut known = room.watch(&named("ca"));
    let is_denied =
        |state: &TrustBundleState| matches!(state, TrustBundleState::Failed(ObjectError::Forbidden(_)));
    timeout(PATIENCE, known.wait_for(is_denied)).await.expect("the error").unwrap();
    room.api.heal();
    until(&mut known, 1, &[&a]).await;
    room.api.fail(ApiRule::always("", "/clustertrustbundles", denied));
    room.api.compact();
    sleep(PATIENCE).await;
    assert_eq!(content(&known.borrow()), Some((1, vec![a])));
    let (_task, off) =
        ApiObjects::new(room.api.client(), OfflineObjects::default(), ProjectionDeps::default());
    let off = off.watch_trust_bundles(&named("ca"));
    assert!(matches!(&*off.borrow(), TrustBundleState::Failed(ObjectError::Unavailable(error))
        if error.contains("the feature gate ClusterTrustBundleProjection is off")));
}
