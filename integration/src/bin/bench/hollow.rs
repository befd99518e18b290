//! Many hollow nodes on a real API server: what they ask of it while nothing changes, how they return after it was away for a minute,
//! and the memory of each.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, Result};
use futures::{StreamExt, TryStreamExt, stream};
use hostlet_integration::cluster::Cluster;
use hostlet_integration::hollow::{Fleet, IMAGE, name};
use hostlet_integration::{Look, wait_for};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{ConfigMap, Node, Pod, ServiceAccount};
use kube::Client;
use kube::api::{Api, ListParams, PostParams};
use serde_json::json;
use tokio::time::{Instant, sleep};

use crate::audit::{Request, counts, requests_since};
use crate::process::{activity, memory};
use crate::report::{Row, Target, Unit};
use crate::stats::{median, ms, p90_ms};

/// Another number of nodes.
const COUNT: &str = "HOSTLET_BENCH_HOLLOW_NODES";
const DEFAULT_COUNT: u16 = 1000;
/// Pods of each node.
const PODS: u16 = 2;
/// How many pods are created at once.
const CREATIONS: usize = 16;
/// The ConfigMap that all pods use.
const MAP: &str = "hollow";
/// How long the start may take.
const START: Duration = Duration::from_secs(900);
/// Longer than any deferred write of a start.
const SETTLE: Duration = Duration::from_secs(60);
/// How long nothing changes.
const STEADY: Duration = Duration::from_secs(120);
const OUTAGE: Duration = Duration::from_secs(60);
/// How long the nodes may take to return.
const RETURN: Duration = Duration::from_secs(300);
/// After their return: watches that back off longest are open again.
const AFTERMATH: Duration = Duration::from_secs(45);

/// Measures them.
pub(crate) async fn run() -> Result<Vec<Row>> {
    let count = match std::env::var(COUNT) {
        Ok(text) => text.parse().with_context(|| format!("{COUNT}={text}"))?,
        Err(_) => DEFAULT_COUNT,
    };
    let cluster = Cluster::start().await.context("bringing up a control plane")?;
    let client = cluster.client().await?;
    let pid = std::process::id();
    let before = memory(pid)?.private;
    let fleet = Fleet::start(&cluster, count)?;
    let begin = Instant::now();
    until_ready(&client, count).await?;
    let start = ms(begin.elapsed());
    crate::note(&format!("{count} hollow nodes are Ready"));
    run_pods(&client, count).await?;
    sleep(SETTLE).await;
    let size = (memory(pid)?.private - before) / f64::from(count);

    let title = |what: &str| format!("{count} hollow nodes, {what}");
    let mut rows = vec![
        Row::new(title("started at once: all are Ready"), Unit::Milliseconds).hostlet(start),
        Row::new(title("private memory of each"), Unit::Megabytes).hostlet(size / 1e6),
    ];
    rows.extend(steady(&cluster, &title).await?);
    rows.extend(outage(&cluster, &client, count, &title).await?);
    drop(fleet);
    Ok(rows)
}

/// Requests while nothing changes.
async fn steady(cluster: &Cluster, title: &dyn Fn(&str) -> String) -> Result<Vec<Row>> {
    let begin = Timestamp::now();
    let used = activity(std::process::id(), STEADY).await?;
    let requests = requests_since(&cluster.audit_log(), begin)?;
    let per_second = |number: usize| number as f64 / STEADY.as_secs_f64();
    let mut rows = vec![
        Row::new(title("idle: CPU of all nodes"), Unit::Millicores).hostlet(used.millicores),
        Row::new(title("idle: all requests"), Unit::PerSecond).hostlet(per_second(requests.len())),
    ];
    for (what, number) in counts(&requests) {
        rows.push(Row::new(title(&format!("idle: {what}")), Unit::PerSecond).hostlet(per_second(number)));
    }
    Ok(rows)
}

/// The API server is away for a minute.
async fn outage(
    cluster: &Cluster,
    client: &Client,
    count: u16,
    title: &dyn Fn(&str) -> String,
) -> Result<Vec<Row>> {
    cluster.stop_api_server()?;
    sleep(OUTAGE).await;
    let begin = Timestamp::now();
    cluster.start_api_server().await?;
    wait_for("all leases are renewed", RETURN, async || {
        let renewed = renewals(&requests_since(&cluster.audit_log(), begin)?).len();
        Ok(if renewed == usize::from(count) { Look::Done(()) } else { Look::NotYet(format!("{renewed}")) })
    })
    .await?;
    until_ready(client, count).await?;
    sleep(AFTERMATH).await;
    let requests = requests_since(&cluster.audit_log(), begin)?;
    // It rejects what comes before it has read its own state.
    let served = requests.iter().find(|request| (200..300).contains(&request.code));
    let first = served.context("no requests after the outage")?.at;
    let since = |at: Timestamp| Duration::try_from(at.duration_since(first)).unwrap_or_default();

    let busiest = busiest_second(requests.iter().map(|request| since(request.at)));
    let in_ten = requests.iter().filter(|request| since(request.at) < Duration::from_secs(10)).count();
    let renewed: Vec<Duration> = renewals(&requests).into_values().map(since).collect();
    let ready: Vec<Duration> = ready_since(client, begin).await?.into_iter().map(since).collect();
    let longest = |times: &[Duration]| times.iter().max().map_or(0.0, |time| ms(*time));
    let after = |what: &str| title(&format!("API server back: {what}"));
    Ok(vec![
        Row::new(after("requests in the busiest second"), Unit::Count)
            .hostlet(busiest as f64)
            // A tenth of what the nodes would send if they all came back in one second.
            .target(Target::AtMost(f64::from(count))),
        Row::new(after("requests in the first 10 s"), Unit::PerSecond).hostlet(in_ten as f64 / 10.0),
        Row::new(after("all requests until everything is followed"), Unit::Count)
            .hostlet(requests.len() as f64),
        Row::new(after("lease renewed, p50"), Unit::Milliseconds)
            .hostlet(median(&renewed.iter().map(|time| ms(*time)).collect::<Vec<_>>())),
        Row::new(after("lease renewed, p90"), Unit::Milliseconds).hostlet(p90_ms(&renewed)),
        Row::new(after("lease renewed, last"), Unit::Milliseconds)
            .hostlet(longest(&renewed))
            .target(Target::AtMost(15_000.0)),
        Row::new(after("nodes that were not Ready meanwhile"), Unit::Count).hostlet(ready.len() as f64),
        Row::new(after("Ready again, last"), Unit::Milliseconds)
            .hostlet(longest(&ready))
            .target(Target::AtMost(30_000.0)),
        Row::new(after("lists"), Unit::Count)
            .hostlet(requests.iter().filter(|request| request.what.starts_with("list ")).count() as f64),
    ])
}

/// When each node first renewed its lease.
fn renewals(requests: &[Request]) -> BTreeMap<&str, Timestamp> {
    let renews = |request: &&Request| request.what == "update leases" && request.code == 200;
    let mut first = BTreeMap::new();
    for request in requests.iter().filter(renews) {
        first.entry(request.user.as_str()).or_insert(request.at);
    }
    first
}

/// The largest number of requests in any second, from times in order.
fn busiest_second(times: impl Iterator<Item = Duration>) -> usize {
    let times: Vec<Duration> = times.collect();
    let within = |begin: usize| {
        let end = times[begin] + Duration::from_secs(1);
        times[begin..].partition_point(|time| *time < end)
    };
    (0..times.len()).map(within).max().unwrap_or(0)
}

/// When the nodes became Ready that have since `begin`.
async fn ready_since(client: &Client, begin: Timestamp) -> Result<Vec<Timestamp>> {
    let nodes = Api::<Node>::all(client.clone()).list(&ListParams::default()).await?;
    let changes = nodes.items.iter().filter_map(|node| Some(ready_condition(node)?.1));
    Ok(changes.filter(|at| *at >= begin).collect())
}

/// Whether a node is Ready, and since when.
fn ready_condition(node: &Node) -> Option<(bool, Timestamp)> {
    let conditions = node.status.as_ref()?.conditions.as_ref()?;
    let ready = conditions.iter().find(|condition| condition.type_ == "Ready")?;
    Some((ready.status == "True", ready.last_transition_time.as_ref()?.0))
}

async fn until_ready(client: &Client, count: u16) -> Result<()> {
    let nodes = Api::<Node>::all(client.clone());
    // From the server's cache.
    let params = ListParams::default().match_any();
    wait_for("all hollow nodes are Ready", START, async || {
        let listed = nodes.list(&params).await?;
        let ready = listed.items.iter().filter(|node| ready_condition(node).is_some_and(|(ready, _)| ready));
        let ready = ready.count();
        // A list of many nodes is work for both sides.
        sleep(Duration::from_secs(1)).await;
        Ok(if ready == usize::from(count) { Look::Done(()) } else { Look::NotYet(format!("{ready}")) })
    })
    .await
}

/// Creates the pods, bound to their nodes, and waits until they are Ready.
async fn run_pods(client: &Client, count: u16) -> Result<()> {
    // Without it the API server admits no pod.
    let accounts = Api::<ServiceAccount>::default_namespaced(client.clone());
    wait_for("a service account", START, async || Ok(Look::Done(accounts.get("default").await?))).await?;
    let map: ConfigMap = serde_json::from_value(json!({"metadata": {"name": MAP}, "data": {"a": "b"}}))?;
    Api::<ConfigMap>::default_namespaced(client.clone()).create(&PostParams::default(), &map).await?;
    let api = Api::<Pod>::default_namespaced(client.clone());
    let all = (0..count).flat_map(|node| (0..PODS).map(move |pod| (node, pod)));
    let created = stream::iter(all).map(async |(node, pod)| {
        let spec = json!({
            "nodeName": name(node), "automountServiceAccountToken": false,
            "containers": [{"name": "main", "image": IMAGE, "envFrom": [{"configMapRef": {"name": MAP}}]}],
        });
        let pod = json!({"metadata": {"name": format!("{}-{pod}", name(node))}, "spec": spec});
        api.create(&PostParams::default(), &serde_json::from_value(pod)?).await.context("creating a pod")
    });
    created.buffer_unordered(CREATIONS).try_collect::<Vec<_>>().await?;
    let expected = usize::from(count) * usize::from(PODS);
    let params = ListParams::default().match_any().fields("status.phase!=Running").limit(500);
    wait_for("all hollow pods run", START, async || {
        let waiting = api.list(&params).await?.items.len();
        sleep(Duration::from_secs(1)).await;
        Ok(if waiting == 0 {
            Look::Done(())
        } else {
            Look::NotYet(format!("{waiting} of {expected} do not"))
        })
    })
    .await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_busiest_second_is_found_wherever_it_begins() {
        let times = [0, 900, 1_500, 1_800, 2_499, 2_501, 9_000].map(Duration::from_millis);
        assert_eq!(busiest_second(times.into_iter()), 3);
        assert_eq!(busiest_second(std::iter::empty()), 0);
    }

    #[test]
    fn the_first_renewal_that_succeeds_counts() {
        let request = |user: &str, second: i64, code| Request {
            at: Timestamp::from_second(second).unwrap(),
            user: user.to_owned(),
            resource: "leases".to_owned(),
            what: "update leases".to_owned(),
            code,
        };
        let all = [request("a", 1, 500), request("a", 2, 200), request("a", 3, 200), request("b", 4, 409)];
        assert_eq!(renewals(&all), [("a", Timestamp::from_second(2).unwrap())].into());
    }
}
