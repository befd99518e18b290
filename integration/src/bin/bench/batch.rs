//! Many pods at once: bare calls at their best, hostlet for comparison, and the sweep that determined the start gate's
//! default.

use std::time::Duration;

use anyhow::Result;
use tokio::time::Instant;

use crate::lab::{Lab, until_shown};
use crate::report::{Row, Target, Unit};
use crate::stats::{median, median_ms, ms};

/// The tried limits of parallel starts.
const SWEEP: [usize; 6] = [1, 2, 3, 4, 6, 8];
/// Number of runs; the median counts.
const ROUNDS: usize = 3;

/// The times of one batch, in milliseconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Batch {
    pub(crate) all: f64,
    pub(crate) middle: f64,
    /// All shown Ready by hostlet.
    shown: f64,
    /// All deleted at once → all removed.
    pub(crate) gone: f64,
}

/// This many pods at once.
pub(crate) async fn run(lab: &Lab, pods: usize) -> Result<Vec<Row>> {
    let mut best = (0, f64::INFINITY);
    for at_once in SWEEP {
        let batch = bare(lab, pods, at_once).await?;
        progress(&format!("{pods} pods, bare, {at_once} at once"), batch);
        if batch.all < best.1 {
            best = (at_once, batch.all);
        }
    }
    let (mut bares, mut hostlets) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        bares.push(bare(lab, pods, best.0).await?);
        hostlets.push(hostlet(lab, pods, "").await?);
        progress(&format!("{pods} pods, bare, {} at once", best.0), bares[bares.len() - 1]);
        progress(&format!("{pods} pods, hostlet"), hostlets[hostlets.len() - 1]);
    }
    let of =
        |batches: &[Batch], part: fn(&Batch) -> f64| median(&batches.iter().map(part).collect::<Vec<_>>());
    let all = of(&bares, |b| b.all);
    let row = |metric: String| Row::new(format!("{pods} pods at once: {metric}"), Unit::Milliseconds);
    Ok(vec![
        row(format!("all run (bare: {} at once, the best)", best.0))
            .bare(all)
            .hostlet(of(&hostlets, |b| b.all))
            .target(Target::Ratio(1.15)),
        row("the middle pod runs (bare: all run)".to_owned())
            .bare(all)
            .hostlet(of(&hostlets, |b| b.middle))
            .target(Target::Ratio(0.6)),
        row("all Ready in `hostlet pods`".to_owned()).bare(all).hostlet(of(&hostlets, |b| b.shown)),
        row("all deleted -> all gone (bare: 4 at once)".to_owned())
            .bare(of(&bares, |b| b.gone))
            .hostlet(of(&hostlets, |b| b.gone)),
    ])
}

/// The gate's sweep: each limit compared with bare calls with the same limit.
pub(crate) async fn gate(lab: &Lab, pods: usize) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    for bound in SWEEP {
        let bare = bare(lab, pods, bound).await?;
        let hostlet = hostlet(lab, pods, &format!("maxConcurrentStarts: {bound}")).await?;
        progress(&format!("{pods} pods, bare, {bound} at once"), bare);
        progress(&format!("{pods} pods, hostlet, maxConcurrentStarts {bound}"), hostlet);
        let row = |metric: &str| Row::new(format!("gate {bound}, {pods} pods: {metric}"), Unit::Milliseconds);
        rows.push(row("all run").bare(bare.all).hostlet(hostlet.all));
        rows.push(row("the middle pod runs").bare(bare.middle).hostlet(hostlet.middle));
    }
    Ok(rows)
}

/// By bare calls, with this many pods in parallel.
pub(crate) async fn bare(lab: &Lab, pods: usize, at_once: usize) -> Result<Batch> {
    let made = lab.start_bare_batch(pods, at_once).await?;
    let took: Vec<Duration> = made.iter().map(|(_, took)| *took).collect();
    let all = took.iter().max().copied().unwrap_or_default();
    let begin = Instant::now();
    lab.stop_bare_batch(made).await?;
    let gone = ms(begin.elapsed());
    settle().await;
    Ok(Batch { all: ms(all), middle: median_ms(&took), shown: f64::NAN, gone })
}

async fn hostlet(lab: &Lab, pods: usize, settings: &str) -> Result<Batch> {
    let daemon = lab.daemon(settings).await?;
    let names: Vec<String> = (0..pods).map(|_| lab.name()).collect();
    let mark = lab.watcher.mark();
    let begin = Instant::now();
    for name in &names {
        lab.write_pod(name)?;
    }
    let took: Vec<Duration> =
        lab.until_running(mark, pods).await?.iter().map(|at| at.duration_since(begin)).collect();
    until_shown(&daemon, pods, Duration::from_millis(20)).await?;
    let shown = ms(begin.elapsed());
    settle().await;
    let mark = lab.watcher.mark();
    let begin = Instant::now();
    for name in &names {
        lab.remove_pod(name)?;
    }
    lab.until_empty(mark, 2 * pods).await?;
    let gone = ms(begin.elapsed());
    until_shown(&daemon, 0, Duration::from_millis(100)).await?;
    settle().await;
    let all = took.iter().max().copied().unwrap_or_default();
    Ok(Batch { all: ms(all), middle: median_ms(&took), shown, gone })
}

/// Waits until the background work of a batch has finished.
async fn settle() {
    tokio::time::sleep(Duration::from_secs(2)).await;
}

/// Prints the result of a batch at once, because batches take long.
pub(crate) fn progress(what: &str, batch: Batch) {
    crate::note(&format!(
        "{what}: all {:.0} ms, middle {:.0} ms, gone {:.0} ms",
        batch.all, batch.middle, batch.gone
    ));
}
