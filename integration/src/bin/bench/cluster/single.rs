//! One pod at a time: start, end, and a container that dies. Bare calls, hostlet and the stock kubelet take turns.

use std::collections::HashMap;
use std::time::Duration;

use anyhow::{Context, Result};
use hostlet_integration::cluster::Agent;
use jiff::Timestamp;

use super::lab::{ClusterLab, Side, Token};
use crate::bare::{BareRestarts, BareStarts};
use crate::lab::Lab;
use crate::report::{Row, Target, Unit};
use crate::single::{kill_container, pause, stop_bare, until_next};
use crate::stats::{median_ms, median_of, p90_ms};
use crate::steps::{StartParts, start_parts};

/// Samples of each figure.
const SAMPLES: usize = 12;

/// Create → Ready, as seen by a watch.
pub(crate) async fn start(lab: &Lab, cluster: &ClusterLab) -> Result<Vec<Row>> {
    let (mut bare, mut parts) = (BareStarts::default(), Vec::new());
    let mut plain = [Vec::new(), Vec::new()];
    let mut with_token = [Vec::new(), Vec::new()];
    for _ in 0..SAMPLES {
        bare.sample(lab).await?;
        for (token, all) in [(Token::Without, &mut plain), (Token::With, &mut with_token)] {
            for (side, took) in cluster.sides.iter().zip(all) {
                let created = Timestamp::now();
                let (name, ready) = cluster.run_one(side, token).await?;
                took.push(ready);
                if side.agent == Agent::Hostlet && token == Token::Without {
                    let socket = cluster.node(side).host().hostlet_socket();
                    let of_it = start_parts(&socket, &name, created).await?;
                    parts.push((of_it, ready.saturating_sub(of_it.all())));
                }
                cluster.end_one(side, name).await?;
                pause().await;
            }
        }
    }
    let row =
        |metric: &str| Row::new(format!("cluster, one pod: created -> Ready{metric}"), Unit::Milliseconds);
    let of = |part: fn(&(StartParts, Duration)) -> Duration| median_of(&parts, part);
    Ok(vec![
        beside(row(", p50"), &bare.all, &plain, median_ms).target(Target::Added(12.0)),
        row(", of that, created -> sandbox asked for").hostlet(of(|(parts, _)| parts.before)),
        row(", of that, the sandbox").bare(bare.sandbox()).hostlet(of(|(parts, _)| parts.sandbox)),
        row(", of that, the container")
            .bare(bare.container())
            .hostlet(of(|(parts, _)| parts.between + parts.container)),
        row(", of that, it runs -> Ready seen").hostlet(of(|(_, after)| *after)),
        beside(row(", p90"), &bare.all, &plain, p90_ms).target(Target::OfStock(1.0)),
        beside(row(" with a token, p50"), &bare.all, &with_token, median_ms).target(Target::OfStock(1.0)),
        beside(row(" with a token, p90"), &bare.all, &with_token, p90_ms).target(Target::OfStock(1.0)),
    ])
}

/// Delete → removed, as seen by a watch.
pub(crate) async fn end(lab: &Lab, cluster: &ClusterLab) -> Result<Vec<Row>> {
    let mut bare = Vec::new();
    let mut gone = [Vec::new(), Vec::new()];
    for _ in 0..SAMPLES {
        let pod = lab.start_bare().await?;
        pause().await;
        bare.push(stop_bare(lab, pod).await?);
        for (side, took) in cluster.sides.iter().zip(&mut gone) {
            let (name, _) = cluster.run_one(side, Token::Without).await?;
            pause().await;
            took.push(cluster.end_one(side, name).await?);
            pause().await;
        }
    }
    let row = |metric: &str| {
        Row::new(format!("cluster, one pod, grace 1 s: deleted -> gone, {metric}"), Unit::Milliseconds)
    };
    Ok(vec![
        beside(row("p50"), &bare, &gone, median_ms).target(Target::Added(50.0)),
        beside(row("p90"), &bare, &gone, p90_ms),
    ])
}

/// A container's process dies → the next one runs.
pub(crate) async fn restart(lab: &Lab, cluster: &ClusterLab) -> Result<Vec<Row>> {
    let mut bare = BareRestarts::default();
    let mut runs = [Vec::new(), Vec::new()];
    for _ in 0..SAMPLES {
        bare.sample(lab).await?;
        for (side, took) in cluster.sides.iter().zip(&mut runs) {
            took.push(restart_one(cluster, side).await?);
        }
    }
    let row = |metric: &str| {
        Row::new(format!("cluster, container killed -> next one runs, {metric}"), Unit::Milliseconds)
    };
    Ok(vec![
        beside(row("p50"), &bare.all, &runs, median_ms).target(Target::OfStock(0.35)),
        beside(row("p90"), &bare.all, &runs, p90_ms),
    ])
}

/// A separate pod: a second death within ten minutes would wait in back-off.
async fn restart_one(cluster: &ClusterLab, side: &Side) -> Result<Duration> {
    let mark = side.watcher.mark();
    let (name, _) = cluster.run_one(side, Token::Without).await?;
    pause().await;
    let containers = cluster.node(side).host().cri().containers().await?;
    let is_ours = |labels: &HashMap<String, String>| labels.get("io.kubernetes.pod.name") == Some(&name);
    let container = containers.iter().find(|it| is_ours(&it.labels)).context("the pod has no container")?;
    let (killed, _) = kill_container(&side.watcher, mark, &container.id).await?;
    let runs = until_next(&side.watcher, mark, &container.id, killed).await?;
    pause().await;
    cluster.end_one(side, name).await?;
    pause().await;
    Ok(runs.duration_since(killed))
}

/// The row with a figure of the samples of each way.
fn beside(
    row: Row,
    bare: &[Duration],
    [hostlet, stock]: &[Vec<Duration>; 2],
    of: fn(&[Duration]) -> f64,
) -> Row {
    row.bare(of(bare)).hostlet(of(hostlet)).stock(of(stock))
}
