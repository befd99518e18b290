//! The load of a pod on the API server: the requests of an agent between a pod's creation and its removal, from the audit
//! log.

use std::collections::BTreeMap;
use std::fs;
use std::time::Duration;

use anyhow::{Context, Result};
use hostlet_integration::cluster::Agent;
use serde::Deserialize;
use tokio::time::sleep;

use super::lab::{ClusterLab, Token};
use crate::report::{Row, Target, Unit};
use crate::single::pause;

/// Number of pods that are created and deleted, one after another.
const PODS: usize = 10;
/// Longer than an agent delays deferrable writes: statuses, events.
const SETTLE: Duration = Duration::from_secs(12);
/// Requests of an agent about its node, independent of its pods.
const OF_THE_NODE: [&str; 3] = ["leases", "nodes", "csinodes"];

/// The used fields of an audit event.
#[derive(Debug, Deserialize)]
struct Event {
    stage: String,
    verb: String,
    user: User,
    #[serde(rename = "objectRef")]
    object: Option<Object>,
}

#[derive(Debug, Deserialize)]
struct User {
    username: String,
}

#[derive(Debug, Deserialize)]
struct Object {
    resource: String,
    #[serde(default)]
    subresource: String,
}

/// Number of requests by kind, e.g. `patch pods/status`.
type Counts = BTreeMap<String, usize>;

/// The requests of whole pod lifecycles.
pub(crate) async fn requests(cluster: &ClusterLab) -> Result<Vec<Row>> {
    let mut per_pod = Vec::new();
    for side in &cluster.sides {
        sleep(SETTLE).await;
        let user = format!("system:node:{}", cluster.node(side).name());
        let log = || fs::read_to_string(cluster.audit_log()).context("reading the audit log");
        let before = log()?.len();
        for _ in 0..PODS {
            let (name, _) = cluster.run_one(side, Token::With).await?;
            pause().await;
            cluster.end_one(side, name).await?;
        }
        sleep(SETTLE).await;
        let counts = count(&log()?[before..], &user)?;
        tell(side.agent, &counts);
        per_pod.push(counts.values().sum::<usize>() as f64 / PODS as f64);
    }
    let row = Row::new("cluster, API requests of a pod's life, with a token", Unit::Count);
    Ok(vec![row.hostlet(per_pod[0]).stock(per_pod[1]).target(Target::OfStock(1.0))])
}

/// The requests of a user that are not about its node. A watch counts once, when it starts.
fn count(log: &str, user: &str) -> Result<Counts> {
    let mut counts = Counts::new();
    for line in log.lines() {
        let event: Event = serde_json::from_str(line).with_context(|| format!("an audit event: {line}"))?;
        let stage = if event.verb == "watch" { "ResponseStarted" } else { "ResponseComplete" };
        let Some(object) = event.object else { continue };
        if event.user.username != user
            || event.stage != stage
            || OF_THE_NODE.contains(&object.resource.as_str())
        {
            continue;
        }
        let slash = if object.subresource.is_empty() { "" } else { "/" };
        let what = format!("{} {}{slash}{}", event.verb, object.resource, object.subresource);
        *counts.entry(what).or_default() += 1;
    }
    Ok(counts)
}

fn tell(agent: Agent, counts: &Counts) {
    let parts: Vec<String> = counts.iter().map(|(what, count)| format!("{what} {count}")).collect();
    crate::note(&format!("{agent:?}, {PODS} pods' lives: {}", parts.join(", ")));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(verb: &str, stage: &str, user: &str, resource: &str) -> String {
        let user = format!(r#""user":{{"username":"{user}"}}"#);
        format!(
            r#"{{"stage":"{stage}","verb":"{verb}",{user},"objectRef":{{"resource":"{resource}","subresource":"status"}}}}"#
        )
    }

    #[test]
    fn a_watch_counts_once_and_requests_of_others_or_for_the_node_do_not_count() {
        let log = [
            line("patch", "ResponseComplete", "n", "pods"),
            line("watch", "ResponseStarted", "n", "pods"),
            line("watch", "ResponseComplete", "n", "pods"),
            line("update", "ResponseComplete", "n", "leases"),
            line("patch", "ResponseComplete", "other", "pods"),
        ];
        let counts = count(&log.join("\n"), "n").unwrap();
        let wanted = [("patch pods/status", 1), ("watch pods/status", 1)];
        assert_eq!(counts, wanted.map(|(what, count)| (what.to_owned(), count)).into());
    }
}
