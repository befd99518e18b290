//! The load of a pod on the API server: the requests of an agent between a pod's creation and its removal, from the audit
//! log.

use std::fs;
use std::time::Duration;

use anyhow::{Context, Result};
use hostlet_integration::cluster::Agent;
use tokio::time::sleep;

use super::lab::{ClusterLab, Token};
use crate::audit::{Counts, Request, counts, requests as requests_in};
use crate::report::{Row, Target, Unit};
use crate::single::pause;

/// Number of pods that are created and deleted, one after another.
const PODS: usize = 10;
/// Longer than an agent delays deferrable writes: statuses, events.
const SETTLE: Duration = Duration::from_secs(12);
/// Requests of an agent about its node, independent of its pods.
const OF_THE_NODE: [&str; 3] = ["leases", "nodes", "csinodes"];

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

/// The requests of a user that are not about its node.
fn count(log: &str, user: &str) -> Result<Counts> {
    let requests = requests_in(log)?;
    let is_of_pods =
        |request: &&Request| request.user == user && !OF_THE_NODE.contains(&request.resource.as_str());
    Ok(counts(requests.iter().filter(is_of_pods)))
}

fn tell(agent: Agent, counts: &Counts) {
    let parts: Vec<String> = counts.iter().map(|(what, count)| format!("{what} {count}")).collect();
    crate::note(&format!("{agent:?}, {PODS} pods' lives: {}", parts.join(", ")));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(verb: &str, user: &str, resource: &str) -> String {
        format!(
            r#"{{"stage":"ResponseComplete","verb":"{verb}","user":{{"username":"{user}"}},"requestReceivedTimestamp":"2026-11-28T12:00:01Z","objectRef":{{"resource":"{resource}"}}}}"#
        )
    }

    #[test]
    fn requests_of_others_or_for_the_node_do_not_count() {
        let log = [line("patch", "n", "pods"), line("update", "n", "leases"), line("patch", "other", "pods")];
        let counts = count(&log.join("\n"), "n").unwrap();
        assert_eq!(counts, [("patch pods".to_owned(), 1)].into());
    }
}
