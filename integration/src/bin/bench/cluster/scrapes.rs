//! What answers about the use of resources cost with 110 pods: time, the agent's CPU while it is asked regularly, and its memory afterwards.
//! `/metrics/probes` is not among them: without probes it costs no more than the connection.

use std::time::Duration;

use anyhow::Result;
use tokio::time::{Instant, sleep};

use super::lab::{ClusterLab, Token};
use super::many::PODS;
use crate::process::{cpu_seconds, memory};
use crate::report::{Row, Target, Unit};
use crate::stats::median_ms;

/// The paths, without the first slash.
const PATHS: [&str; 5] = [
    "metrics",
    "metrics/resource",
    "metrics/cadvisor",
    "stats/summary?only_cpu_and_memory=true",
    "stats/summary",
];
/// Questions for each path.
const ASKED: usize = 5;
/// Time between two of an agent, longer than anything is kept.
const PAUSE: Duration = Duration::from_secs(12);
/// Idle time before.
const SETTLE: Duration = Duration::from_secs(15);

/// What an agent needed for one path.
struct Cost {
    /// Of an answer, milliseconds.
    time: f64,
    /// Thousandths of a core.
    cpu: f64,
}

/// Time and CPU of each path.
pub(crate) async fn scrapes(cluster: &ClusterLab) -> Result<Vec<Row>> {
    let mut made = Vec::new();
    for side in &cluster.sides {
        made.push((side, cluster.run(side, PODS, Token::Without).await?.0));
    }
    sleep(SETTLE).await;
    let [hostlet, stock] = &cluster.sides;
    let mut rows = Vec::new();
    for path in PATHS {
        let [of_hostlet, of_stock] = costs(cluster, path).await?;
        let row = |metric: &str, unit| Row::new(format!("cluster, {PODS} pods, /{path}: {metric}"), unit);
        rows.push(
            row("time", Unit::Milliseconds)
                .hostlet(of_hostlet.time)
                .stock(of_stock.time)
                .target(Target::OfStock(0.25)),
        );
        rows.push(
            row("CPU", Unit::Millicores)
                .hostlet(of_hostlet.cpu)
                .stock(of_stock.cpu)
                .target(Target::OfStock(0.25)),
        );
    }
    let rss = |side| anyhow::Ok(memory(cluster.node(side).agent_pid()?)?.rss / 1e6);
    rows.push(
        Row::new(format!("cluster, {PODS} pods, afterwards: RSS"), Unit::Megabytes)
            .hostlet(rss(hostlet)?)
            .stock(rss(stock)?)
            .target(Target::AtMost(30.0)),
    );
    for (side, names) in made {
        cluster.end(side, &names).await?;
    }
    Ok(rows)
}

/// Asks both agents in turns, so that neither disturbs the other one.
async fn costs(cluster: &ClusterLab, path: &str) -> Result<[Cost; 2]> {
    let cpu = |side| cpu_seconds(cluster.node(side).agent_pid()?);
    let [hostlet, stock] = &cluster.sides;
    let (before, begin) = ([cpu(hostlet)?, cpu(stock)?], Instant::now());
    let mut times = [Vec::new(), Vec::new()];
    for _ in 0..ASKED {
        for (side, times) in cluster.sides.iter().zip(&mut times) {
            times.push(cluster.ask(side, path).await?.1);
            sleep(PAUSE / 2).await;
        }
    }
    let seconds = begin.elapsed().as_secs_f64();
    let cost = |times: &[Duration], before: f64, after: f64| Cost {
        time: median_ms(times),
        cpu: (after - before) / seconds * 1000.0,
    };
    let [of_hostlet, of_stock] = times;
    Ok([cost(&of_hostlet, before[0], cpu(hostlet)?), cost(&of_stock, before[1], cpu(stock)?)])
}
