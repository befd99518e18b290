//! The resource use of an agent with 110 pods while nothing changes. Both are idle at the same time.

use std::time::Duration;

use anyhow::Result;
use tokio::time::sleep;

use super::lab::{ClusterLab, Token};
use super::many::PODS;
use crate::process::{activity, memory};
use crate::report::{Row, Target, Unit};

/// How long the agents are measured.
const WATCH: Duration = Duration::from_secs(30);
/// Idle time before: longer than the work that follows a start, such as full status reports.
const SETTLE: Duration = Duration::from_secs(15);

/// Memory and CPU.
pub(crate) async fn idle(cluster: &ClusterLab) -> Result<Vec<Row>> {
    let mut made = Vec::new();
    for side in &cluster.sides {
        made.push((side, cluster.run(side, PODS, Token::Without).await?.0));
    }
    sleep(SETTLE).await;
    let [hostlet, stock] = &cluster.sides;
    let (hostlet, stock) = (cluster.node(hostlet).agent_pid()?, cluster.node(stock).agent_pid()?);
    let (of_hostlet, of_stock) = tokio::join!(activity(hostlet, WATCH), activity(stock, WATCH));
    let (of_hostlet, of_stock) = (of_hostlet?, of_stock?);
    let row = |metric: &str, unit| Row::new(format!("cluster, {PODS} pods, idle: {metric}"), unit);
    let rows = vec![
        row("RSS", Unit::Megabytes)
            .hostlet(memory(hostlet)?.rss / 1e6)
            .stock(memory(stock)?.rss / 1e6)
            .target(Target::AtMost(25.0)),
        row("private memory", Unit::Megabytes)
            .hostlet(memory(hostlet)?.private / 1e6)
            .stock(memory(stock)?.private / 1e6),
        row("CPU", Unit::Millicores)
            .hostlet(of_hostlet.millicores)
            .stock(of_stock.millicores)
            .target(Target::OfStock(0.15)),
    ];
    for (side, names) in made {
        cluster.end(side, &names).await?;
    }
    Ok(rows)
}
