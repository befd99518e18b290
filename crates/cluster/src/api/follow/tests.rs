//! Following against a server that fails, in the ways servers do.

use std::ops::ControlFlow;
use std::time::Duration;

use hostlet_base::WallClock;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::runtime::watcher::{Config, Event};
use serde_json::json;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};

use super::follow;
use crate::api::TypedApi;
use crate::api::fake::{ApiFault, ApiRule, FakeApi, Recorded};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

/// Somebody who follows ConfigMaps.
struct Follower {
    /// The names of all of them after a listing, or of one that changed; empty after a failure.
    news: mpsc::Receiver<Vec<String>>,
    _running: JoinSet<()>,
}

impl Follower {
    fn start(api: &FakeApi) -> Self {
        let (tx, news) = mpsc::channel(1000);
        let client = api.client();
        let mut running = JoinSet::new();
        running.spawn(async move {
            let mut listing = Vec::new();
            let maps = |client| TypedApi::<ConfigMap>::namespaced(client, "default");
            follow(client, maps, Config::default(), |event| {
                let name = |map: ConfigMap| map.metadata.name.unwrap();
                let shown = match event {
                    Ok(Event::Init) => {
                        listing.clear();
                        None
                    }
                    Ok(Event::InitApply(map)) => {
                        listing.push(name(map));
                        None
                    }
                    Ok(Event::InitDone) => Some(listing.clone()),
                    Ok(Event::Apply(map) | Event::Delete(map)) => Some(vec![name(map)]),
                    Err(_) => Some(Vec::new()),
                };
                shown.map_or(ControlFlow::Continue(()), |shown| match tx.try_send(shown) {
                    Ok(()) => ControlFlow::Continue(()),
                    Err(_) => ControlFlow::Break(()),
                })
            })
            .await;
        });
        Self { news, _running: running }
    }

    /// The next listing or change, after any failures.
    async fn next(&mut self) -> Vec<String> {
        let next = async {
            loop {
                match self.news.recv().await.unwrap() {
                    failure if failure.is_empty() => {}
                    shown => return shown,
                }
            }
        };
        timeout(Duration::from_secs(600), next).await.unwrap()
    }
}

fn put(api: &FakeApi, name: &str) {
    let map = serde_json::from_value::<ConfigMap>(json!({"metadata": {"name": name}})).unwrap();
    api.put(&format!("{MAPS}/{name}"), &map);
}

fn methods(requests: &[Recorded]) -> Vec<&str> {
    requests.iter().map(|request| request.method.as_str()).collect()
}

#[tokio::test(start_paused = true)]
async fn objects_and_their_changes_come_in_one_response() {
    let api = FakeApi::new(WallClock::system());
    put(&api, "a");
    put(&api, "b");
    let mut follower = Follower::start(&api);
    assert_eq!(follower.next().await, ["a", "b"]);
    put(&api, "c");
    assert_eq!(follower.next().await, ["c"]);
    assert_eq!(methods(&api.requests()), ["WATCH"]);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_cannot_stream_lists_is_asked_for_a_list() {
    let api = FakeApi::new(WallClock::system());
    api.reject_streamed_lists();
    put(&api, "a");
    let mut follower = Follower::start(&api);
    let begin = Instant::now();
    assert_eq!(follower.next().await, ["a"]);
    assert!(begin.elapsed() < Duration::from_millis(50), "without a pause: {:?}", begin.elapsed());
    put(&api, "b");
    assert_eq!(follower.next().await, ["b"]);
    assert_eq!(methods(&api.requests()), ["WATCH", "GET", "WATCH"]);
}

/// An outage leaves what is known, and a reconnect continues from there.
#[tokio::test(start_paused = true)]
async fn an_outage_causes_no_new_list() {
    let api = FakeApi::new(WallClock::system());
    put(&api, "a");
    api.fail(ApiRule::once("WATCH", MAPS, ApiFault::CutWatch(2)));
    api.fail(ApiRule { times: 8, ..ApiRule::always("", "", ApiFault::Reset) });
    let mut follower = Follower::start(&api);
    assert_eq!(follower.next().await, ["a"]);
    put(&api, "b");
    assert_eq!(follower.next().await, ["b"], "only what changed");
    assert_eq!(methods(&api.requests()), ["WATCH"; 10]);
}

/// The pauses of many nodes after the same failure, with the request that is repeated.
#[tokio::test(start_paused = true)]
async fn nodes_return_spread_over_time_and_respect_the_servers_pause() {
    let fault = ApiFault::Reject { code: 503, reason: "ServiceUnavailable", retry_after: 4 };
    for (fault, range) in [(ApiFault::Reset, 0.4..0.81), (fault, 4.0..6.01)] {
        let mut pauses = Vec::new();
        for _ in 0..40 {
            let api = FakeApi::new(WallClock::system());
            put(&api, "a");
            api.fail(ApiRule::once("WATCH", MAPS, fault.clone()));
            let begin = Instant::now();
            assert_eq!(Follower::start(&api).next().await, ["a"]);
            pauses.push(begin.elapsed().as_secs_f64());
        }
        assert!(pauses.iter().all(|pause| range.contains(pause)), "{fault:?}: {pauses:?}");
        pauses.sort_by(f64::total_cmp);
        let width = range.end - range.start;
        assert!(pauses[39] - pauses[0] > width / 3.0, "{fault:?}: {pauses:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_ends_watches_at_once_is_not_asked_continuously() {
    let api = FakeApi::new(WallClock::system());
    put(&api, "a");
    api.fail(ApiRule { skip: 1, ..ApiRule::always("WATCH", MAPS, ApiFault::EndWatch(0)) });
    api.fail(ApiRule::once("WATCH", MAPS, ApiFault::EndWatch(2)));
    let mut follower = Follower::start(&api);
    assert_eq!(follower.next().await, ["a"]);
    tokio::time::sleep(Duration::from_secs(60)).await;
    let requests = api.requests().len();
    assert!((20..=62).contains(&requests), "{requests} in a minute");
}
