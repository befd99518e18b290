//! The maximum number of pods of a node at once, each with a sidecar and a readiness probe.

use std::time::Duration;

use anyhow::Result;
use futures::{StreamExt, TryStreamExt, stream};
use hostlet_integration::real::{BUSYBOX_IMAGE, CriSandbox, PAUSE_IMAGE};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use super::lab::ClusterLab;
use super::many::{BARE_AT_ONCE, PODS, SETTLE};
use crate::lab::Lab;
use crate::report::{Row, Target, Unit};
use crate::stats::{median, median_ms, ms};

/// Turns of bare calls and of each agent. Each takes two minutes.
const ROUNDS: usize = 2;
/// An HTTP server that ends at once on SIGTERM.
const SERVER: [&str; 3] = ["sh", "-c", "trap 'exit 0' TERM; httpd -p 8080 -h /etc; sleep 3600 & wait"];

#[derive(Default)]
struct Figures {
    last: Vec<f64>,
    middle: Vec<f64>,
}

impl Figures {
    fn add(&mut self, who: &str, took: &[Duration]) {
        self.last.push(ms(took.iter().max().copied().unwrap_or_default()));
        self.middle.push(median_ms(took));
        crate::note(&format!(
            "{PODS} pods with probe and sidecar, {who}: last {:.0} ms, middle {:.0} ms",
            self.last[self.last.len() - 1],
            self.middle[self.middle.len() - 1],
        ));
    }
}

/// 110 pods with a probe and a sidecar each.
pub(crate) async fn probed(lab: &Lab, cluster: &ClusterLab) -> Result<Vec<Row>> {
    let (mut bare, mut agents) = (Figures::default(), [Figures::default(), Figures::default()]);
    for _ in 0..ROUNDS {
        bare.add("bare", &by_bare_calls(lab).await?);
        for (side, figures) in cluster.sides.iter().zip(&mut agents) {
            let (names, ready) = cluster.run_specs(side, vec![spec(); PODS]).await?;
            figures.add(&format!("{:?}", side.agent), &ready);
            sleep(SETTLE).await;
            cluster.end(side, &names).await?;
            sleep(SETTLE).await;
            cluster.clean(side).await?;
            sleep(SETTLE).await;
        }
    }
    let row = |metric: &str, of: fn(&Figures) -> &[f64]| {
        let [hostlet, stock] = &agents;
        Row::new(format!("cluster, {PODS} pods with probe and sidecar: {metric}"), Unit::Milliseconds)
            .bare(median(of(&bare)))
            .hostlet(median(of(hostlet)))
            .stock(median(of(stock)))
            .target(Target::OfStock(1.0))
    };
    Ok(vec![
        row("the last is Ready (bare: runs)", |it| &it.last),
        row("the middle pod is Ready (bare: runs)", |it| &it.middle),
    ])
}

fn spec() -> Value {
    json!({
        "automountServiceAccountToken": false,
        "initContainers": [{"name": "sidecar", "image": PAUSE_IMAGE, "restartPolicy": "Always"}],
        "containers": [{
            "name": "server",
            "image": BUSYBOX_IMAGE,
            "command": SERVER,
            "readinessProbe": {"httpGet": {"port": 8080, "path": "/passwd"}, "periodSeconds": 10},
        }],
    })
}

/// How long after the beginning each pod ran.
async fn by_bare_calls(lab: &Lab) -> Result<Vec<Duration>> {
    let cri = lab.host.cri();
    let begin = Instant::now();
    let made: Vec<(String, Duration)> = stream::iter(0..PODS)
        .map(|_| async {
            let sandbox = CriSandbox::new(&lab.name(), lab.host.id(), &lab.host.logs());
            let id = cri.run_sandbox(&sandbox).await?;
            cri.run_pause(&sandbox, &id, 0).await?;
            cri.run_container(&sandbox, &id, "server", &SERVER).await?;
            anyhow::Ok((id, begin.elapsed()))
        })
        .buffer_unordered(BARE_AT_ONCE)
        .try_collect()
        .await?;
    sleep(SETTLE).await;
    stream::iter(&made)
        .map(|(id, _)| cri.remove_sandbox(id))
        .buffer_unordered(BARE_AT_ONCE)
        .try_for_each(|()| async { Ok(()) })
        .await?;
    sleep(SETTLE).await;
    Ok(made.into_iter().map(|(_, took)| took).collect())
}
