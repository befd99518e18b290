//! A command that does nothing, in a container on a node with 110 pods: how long it takes through the node's API beside the runtime's
//! own call for it, and with streams through the API server.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use hostlet_integration::real::{BUSYBOX_IMAGE, PAUSE_IMAGE};
use kube::api::AttachParams;
use serde_json::{Value, json};
use tokio::time::{Instant, timeout};

use super::lab::{ClusterLab, Side};
use super::many::PODS;
use crate::lab::LONG;
use crate::report::{Row, Target, Unit};
use crate::single::pause;
use crate::stats::median_ms;

/// Samples of each figure.
const SAMPLES: usize = 20;
const COMMAND: &str = "true";

/// Requested → its exit status has arrived. Bare is ExecSync on the same container: no connection has to be made for it. The client of the
/// streams is this program, which is not optimized.
pub(crate) async fn exec(cluster: &ClusterLab) -> Result<Vec<Row>> {
    let (mut bare, mut run, mut streamed) = (Vec::new(), [Vec::new(), Vec::new()], [Vec::new(), Vec::new()]);
    let mut made = Vec::new();
    for side in &cluster.sides {
        let mut specs = vec![spec(PAUSE_IMAGE, &Value::Null); PODS - 1];
        specs.push(spec(BUSYBOX_IMAGE, &json!(["sh", "-c", "trap 'exit 0' TERM; sleep 100000 & wait"])));
        made.push(cluster.run_specs(side, specs).await?.0);
    }
    let sides = || cluster.sides.iter().zip(&made).enumerate();
    for _ in 0..SAMPLES {
        for (index, (side, names)) in sides() {
            let name = names.last().context("no pod")?;
            streamed[index].push(one(cluster, name).await?);
            pause().await;
            let path = format!("{}?cmd={COMMAND}", cluster.path("run", name));
            run[index].push(cluster.request("POST", side, &path).await?.1);
            pause().await;
            if index == 0 {
                bare.push(one_bare(cluster, side, name).await?);
                pause().await;
            }
        }
    }
    for (_, (side, names)) in sides() {
        cluster.end(side, names).await?;
    }
    let row = |how: &str, times: [Vec<Duration>; 2]| {
        let [hostlet, stock] = times.map(|times| median_ms(&times));
        Row::new(format!("cluster, {PODS} pods: `{COMMAND}` {how}, p50"), Unit::Milliseconds)
            .bare(median_ms(&bare))
            .hostlet(hostlet)
            .stock(stock)
    };
    Ok(vec![
        row("run by the node", run).target(Target::Added(10.0)),
        row("with streams, through the API server", streamed).target(Target::OfStock(1.0)),
    ])
}

fn spec(image: &str, command: &Value) -> Value {
    json!({
        "automountServiceAccountToken": false,
        "containers": [{"name": "main", "image": image, "command": command}],
    })
}

async fn one(cluster: &ClusterLab, name: &str) -> Result<Duration> {
    let params = AttachParams::default().stdout(true).stderr(false);
    let begin = Instant::now();
    let whole = async {
        let mut process = cluster.api().exec(name, [COMMAND], &params).await.context("running a command")?;
        let status = process.take_status().context("no status")?.await.context("no exit status")?;
        ensure!(status.status.as_deref() == Some("Success"), "{COMMAND} failed: {status:?}");
        anyhow::Ok(begin.elapsed())
    };
    timeout(LONG, whole).await.context("a command did not end")?
}

async fn one_bare(cluster: &ClusterLab, side: &Side, name: &str) -> Result<Duration> {
    let id = cluster.container_id(name).await?;
    let begin = Instant::now();
    cluster.node(side).host().cri().exec(&id, &[COMMAND]).await?;
    Ok(begin.elapsed())
}
