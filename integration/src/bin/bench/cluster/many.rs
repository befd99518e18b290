//! The maximum number of pods of a node, at once.

use std::time::Duration;

use anyhow::Result;
use tokio::time::sleep;

use super::lab::{ClusterLab, Token};
use crate::batch;
use crate::lab::Lab;
use crate::report::{Row, Target, Unit};
use crate::stats::{median, median_ms, ms};

pub(super) const PODS: usize = 110;
/// Turns of bare calls and of each agent.
const ROUNDS: usize = 3;
/// Number of pods that bare calls start in parallel: close to the best, as the scenario `batch110` finds it.
pub(super) const BARE_AT_ONCE: usize = 4;
/// Waits until the background work of a batch has finished.
pub(super) const SETTLE: Duration = Duration::from_secs(3);

#[derive(Default)]
struct Figures {
    last: Vec<f64>,
    middle: Vec<f64>,
    gone: Vec<f64>,
    middle_gone: Vec<f64>,
}

/// 110 pods, created at once and deleted at once.
pub(crate) async fn many(lab: &Lab, cluster: &ClusterLab) -> Result<Vec<Row>> {
    let mut bare = Figures::default();
    let mut figures = [Figures::default(), Figures::default()];
    for _ in 0..ROUNDS {
        let batch = batch::bare(lab, PODS, BARE_AT_ONCE).await?;
        batch::progress(&format!("{PODS} pods, bare, {BARE_AT_ONCE} at once"), batch);
        bare.last.push(batch.all);
        bare.middle.push(batch.middle);
        bare.gone.push(batch.gone);
        // Bare calls end as one.
        bare.middle_gone.push(batch.gone);
        for (side, figures) in cluster.sides.iter().zip(&mut figures) {
            let (names, ready) = cluster.run(side, PODS, Token::Without).await?;
            let last = |took: &[Duration]| ms(took.iter().max().copied().unwrap_or_default());
            sleep(SETTLE).await;
            let gone = cluster.end(side, &names).await?;
            sleep(SETTLE).await;
            cluster.clean(side).await?;
            sleep(SETTLE).await;
            figures.last.push(last(&ready));
            figures.middle.push(median_ms(&ready));
            figures.gone.push(last(&gone));
            figures.middle_gone.push(median_ms(&gone));
            crate::note(&format!(
                "{PODS} pods, {:?}: last ready {:.0} ms, middle {:.0} ms, last gone {:.0} ms, middle {:.0} ms",
                side.agent,
                last(&ready),
                median_ms(&ready),
                last(&gone),
                median_ms(&gone)
            ));
        }
    }
    let row = |metric: &str, of: fn(&Figures) -> &[f64]| {
        let [hostlet, stock] = &figures;
        Row::new(format!("cluster, {PODS} pods at once: {metric}"), Unit::Milliseconds)
            .bare(median(of(&bare)))
            .hostlet(median(of(hostlet)))
            .stock(median(of(stock)))
    };
    Ok(vec![
        row("the last is Ready", |it| &it.last).target(Target::OfStock(0.65)),
        row("the middle pod is Ready", |it| &it.middle).target(Target::OfStock(0.45)),
        row("deleted -> the last is gone", |it| &it.gone).target(Target::OfStock(0.6)),
        row("deleted -> the middle pod is gone (bare: all)", |it| &it.middle_gone),
    ])
}
