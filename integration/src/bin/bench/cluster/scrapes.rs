//! What answers about the use of resources cost with 110 pods: time, and the agent's CPU while it is asked regularly. Both are asked
//! through the API server at the same time.

use std::time::Duration;

use anyhow::Result;
use tokio::time::{Instant, sleep};

use super::lab::{ClusterLab, Side, Token};
use super::many::PODS;
use crate::process::cpu_seconds;
use crate::report::{Row, Target, Unit};
use crate::stats::median_ms;

/// The paths, without the first slash.
const PATHS: [&str; 4] =
    ["metrics/resource", "metrics/cadvisor", "stats/summary?only_cpu_and_memory=true", "stats/summary"];
/// Questions for each path.
const ASKED: usize = 5;
/// Time between two, longer than anything is kept.
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
        let (of_hostlet, of_stock) = tokio::join!(cost(cluster, hostlet, path), cost(cluster, stock, path));
        let (of_hostlet, of_stock) = (of_hostlet?, of_stock?);
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
    for (side, names) in made {
        cluster.end(side, &names).await?;
    }
    Ok(rows)
}

async fn cost(cluster: &ClusterLab, side: &Side, path: &str) -> Result<Cost> {
    let pid = cluster.node(side).agent_pid()?;
    let (before, begin) = (cpu_seconds(pid)?, Instant::now());
    let mut times = Vec::new();
    for _ in 0..ASKED {
        let asked_at = Instant::now();
        cluster.ask(side, path).await?;
        times.push(asked_at.elapsed());
        sleep(PAUSE).await;
    }
    let cpu = (cpu_seconds(pid)? - before) / begin.elapsed().as_secs_f64() * 1000.0;
    Ok(Cost { time: median_ms(&times), cpu })
}
