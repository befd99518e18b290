//! Reading a log: how long it takes, and the agent's CPU time for it.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use hostlet_integration::real::BUSYBOX_IMAGE;
use serde_json::{Value, json};

use super::lab::{ClusterLab, Side};
use crate::process::cpu_seconds;
use crate::report::{Row, Target, Unit};
use crate::single::pause;
use crate::stats::median_ms;

/// Samples of each figure.
const SAMPLES: usize = 12;
/// A log of almost 10 MB, which is not rotated. Half of it are the runtime's headers.
const LINES: usize = 100_000;
const LINE: usize = 50;

/// Whole logs, and the last lines of one.
pub(crate) async fn logs(cluster: &ClusterLab) -> Result<Vec<Row>> {
    let (mut whole, mut last, mut cpu) = ([Vec::new(), Vec::new()], [Vec::new(), Vec::new()], [0.0, 0.0]);
    for (index, side) in cluster.sides.iter().enumerate() {
        let (names, _) = cluster.run_specs(side, vec![spec()]).await?;
        let log = cluster.path("containerLogs", names.first().context("no pod")?);
        while cluster.ask(side, &log).await?.0 < LINES * LINE {
            pause().await;
        }
        let pid = cluster.node(side).agent_pid()?;
        let before = cpu_seconds(pid)?;
        for _ in 0..SAMPLES {
            whole[index].push(timed(cluster, side, &log, LINES).await?);
        }
        cpu[index] = (cpu_seconds(pid)? - before) * 1000.0 / SAMPLES as f64;
        let tail = format!("{log}?tailLines=100");
        for _ in 0..SAMPLES {
            last[index].push(timed(cluster, side, &tail, 100).await?);
        }
        cluster.end(side, &names).await?;
    }
    let row = |what: &str, hostlet: f64, stock: f64| {
        Row::new(format!("cluster, one pod: {what}"), Unit::Milliseconds)
            .hostlet(hostlet)
            .stock(stock)
            .target(Target::OfStock(1.0))
    };
    Ok(vec![
        row("log of 100,000 lines read, p50", median_ms(&whole[0]), median_ms(&whole[1])),
        row("the agent's CPU time for it", cpu[0], cpu[1]),
        row("last 100 lines of it read, p50", median_ms(&last[0]), median_ms(&last[1])),
    ])
}

fn spec() -> Value {
    let script =
        format!("yes {} | head -n {LINES}; trap 'exit 0' TERM; sleep 100000 & wait", "x".repeat(LINE - 1));
    json!({
        "automountServiceAccountToken": false,
        "containers": [{"name": "main", "image": BUSYBOX_IMAGE, "command": ["sh", "-c", script]}],
    })
}

/// Reads a log of so many lines; returns how long it took.
async fn timed(cluster: &ClusterLab, side: &Side, path: &str, lines: usize) -> Result<Duration> {
    let (bytes, took) = cluster.ask(side, path).await?;
    ensure!(bytes == lines * LINE, "{:?} answered {bytes} bytes", side.agent);
    Ok(took)
}
