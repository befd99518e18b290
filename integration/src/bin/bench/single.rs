//! One pod at a time: start, end, and a container that dies. Bare calls and hostlet take turns, so that both see the same
//! machine.

use std::time::Duration;

use anyhow::{Context, Result, bail};
use hostlet_integration::Daemon;
use hostlet_proto::cri::ContainerState;
use jiff::Timestamp;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tokio::time::{Instant, sleep};

use crate::bare::{BareRestarts, BareStarts};
use crate::lab::{BarePod, LONG, Lab, TICK, until_shown};
use crate::report::{Row, Target, Unit};
use crate::stats::{median_ms, median_of, p90_ms};
use crate::steps::{StartParts, decided, start_parts};
use crate::watch::{Event, Watcher, What};

/// Samples of each figure.
const SAMPLES: usize = 25;

/// Create → Running, with the parts of that time.
pub(crate) async fn start(lab: &Lab) -> Result<Vec<Row>> {
    let daemon = lab.daemon("").await?;
    let (mut bare, mut hostlet, mut parts) = (BareStarts::default(), Vec::new(), Vec::new());
    for _ in 0..SAMPLES {
        bare.sample(lab).await?;

        let written = Timestamp::now();
        let (name, runs, shown) = start_pod(lab, &daemon).await?;
        hostlet.push((runs, shown));
        parts.push(start_parts(daemon.socket(), &name, written).await?);
        end_pod(lab, &daemon, &name).await?;
    }
    let row = |metric: &str| Row::new(format!("one pod: {metric}"), Unit::Milliseconds);
    let runs: Vec<Duration> = hostlet.iter().map(|(runs, _)| *runs).collect();
    let shown: Vec<Duration> = hostlet.iter().map(|(_, shown)| *shown).collect();
    let of = |part: fn(&StartParts) -> Duration| median_of(&parts, part);
    Ok(vec![
        row("created -> runs, p50")
            .bare(median_ms(&bare.all))
            .hostlet(median_ms(&runs))
            .target(Target::Added(8.0)),
        row("created -> runs, p90").bare(p90_ms(&bare.all)).hostlet(p90_ms(&runs)),
        row("created -> Ready in `hostlet pods`, p50").bare(median_ms(&bare.all)).hostlet(median_ms(&shown)),
        row("of that, created -> sandbox asked for").hostlet(of(|parts| parts.before)),
        row("of that, the sandbox").bare(bare.sandbox()).hostlet(of(|parts| parts.sandbox)),
        row("of that, sandbox made -> container asked for").hostlet(of(|parts| parts.between)),
        row("of that, the container").bare(bare.container()).hostlet(of(|parts| parts.container)),
    ])
}

/// Deleted → removed from the runtime.
pub(crate) async fn end(lab: &Lab) -> Result<Vec<Row>> {
    let daemon = lab.daemon("").await?;
    let (mut bare, mut gone) = (Vec::new(), Vec::new());
    for _ in 0..SAMPLES {
        let pod = lab.start_bare().await?;
        bare.push(stop_bare(lab, pod).await?);
        let (name, ..) = start_pod(lab, &daemon).await?;
        gone.push(end_pod(lab, &daemon, &name).await?);
    }
    let row = Row::new("one pod that exits at once: deleted -> gone, p50", Unit::Milliseconds);
    Ok(vec![row.bare(median_ms(&bare)).hostlet(median_ms(&gone)).target(Target::Added(30.0))])
}

/// A container's process dies → the next one runs.
pub(crate) async fn restart(lab: &Lab) -> Result<Vec<Row>> {
    let daemon = lab.daemon("").await?;
    let mut bare = BareRestarts::default();
    let (mut decisions, mut runs) = (Vec::new(), Vec::new());
    for _ in 0..SAMPLES {
        bare.sample(lab).await?;

        // A new pod each time: a second death within ten minutes would wait in back-off.
        let mark = lab.watcher.mark();
        let (name, ..) = start_pod(lab, &daemon).await?;
        let containers = lab.host.cri().containers().await?;
        let container = containers.first().context("the pod has no container")?;
        let (killed, wall) = kill_container(&lab.watcher, mark, &container.id).await?;
        let runs_again = until_next(&lab.watcher, mark, &container.id, killed).await?;
        runs.push(runs_again.duration_since(killed));
        until_shown(&daemon, 1, TICK).await?;
        decisions.push(decided(daemon.socket(), &name, wall).await?);
        end_pod(lab, &daemon, &name).await?;
    }
    Ok(vec![
        Row::new("container killed -> next one runs, p50", Unit::Milliseconds)
            .bare(median_ms(&bare.all))
            .hostlet(median_ms(&runs))
            .target(Target::Added(50.0)),
        Row::new("container killed -> next one decided on (bare: end seen), p50", Unit::Milliseconds)
            .bare(median_ms(&bare.seen))
            .hostlet(median_ms(&decisions))
            .target(Target::AtMost(50.0)),
        Row::new("container killed -> next one decided on (bare: end seen), p90", Unit::Milliseconds)
            .bare(p90_ms(&bare.seen))
            .hostlet(p90_ms(&decisions)),
    ])
}

/// Waits until the CRI reports a container as exited, before which its exit code is unknown.
pub(crate) async fn until_exited(lab: &Lab, id: &str) -> Result<()> {
    let end = Instant::now() + LONG;
    while lab.host.cri().container_status(id).await?.state != ContainerState::ContainerExited as i32 {
        if Instant::now() >= end {
            bail!("not within {LONG:?}: the CRI shows the end of {id}");
        }
        sleep(TICK).await;
    }
    Ok(())
}

/// Kills a container's process; returns when containerd reported its exit.
pub(crate) async fn kill_container(watcher: &Watcher, mark: usize, id: &str) -> Result<(Instant, Timestamp)> {
    let pid = watcher
        .wait(mark, "the container's pid", LONG, |events| {
            events.iter().find_map(|event| match event.what {
                What::Started(pid) if event.id == id => Some(pid),
                What::Started(_) | What::Exited | What::Removed => None,
            })
        })
        .await?;
    kill(Pid::from_raw(i32::try_from(pid)?), Signal::SIGKILL).context("killing the container's process")?;
    watcher
        .wait(mark, "the container's exit", LONG, |events| {
            let exit = events.iter().find(|event| event.id == id && event.what == What::Exited)?;
            Some((exit.at, exit.wall))
        })
        .await
}

/// When a container other than `id` started, after `killed`.
pub(crate) async fn until_next(watcher: &Watcher, mark: usize, id: &str, killed: Instant) -> Result<Instant> {
    let is_next = |event: &&Event| event.id != id && matches!(event.what, What::Started(_));
    watcher
        .wait(mark, "the next container runs", LONG, |events| {
            events.iter().filter(|event| event.at > killed).find(is_next).map(|event| event.at)
        })
        .await
}

/// Starts a pod through hostlet: its name, how long until the CRI showed it running, and until hostlet did.
async fn start_pod(lab: &Lab, daemon: &Daemon) -> Result<(String, Duration, Duration)> {
    let (name, mark) = (lab.name(), lab.watcher.mark());
    let begin = Instant::now();
    lab.write_pod(&name)?;
    lab.until_running(mark, 1).await?;
    let took = begin.elapsed();
    until_shown(daemon, 1, TICK).await?;
    Ok((name, took, begin.elapsed()))
}

/// Deletes it; how long until the runtime had removed all of it. Returns when hostlet has finished with it as well.
async fn end_pod(lab: &Lab, daemon: &Daemon, name: &str) -> Result<Duration> {
    let mark = lab.watcher.mark();
    let begin = Instant::now();
    lab.remove_pod(name)?;
    lab.until_empty(mark, 2).await?;
    let took = begin.elapsed();
    until_shown(daemon, 0, Duration::from_millis(20)).await?;
    pause().await;
    Ok(took)
}

pub(crate) async fn stop_bare(lab: &Lab, pod: BarePod) -> Result<Duration> {
    let begin = Instant::now();
    lab.stop_bare(pod).await?;
    let took = begin.elapsed();
    pause().await;
    Ok(took)
}

/// Waits until the shims of the removed pod have exited and hostlet has done its deferred work, so that neither affects the
/// next measurement.
pub(crate) async fn pause() {
    sleep(Duration::from_millis(733)).await;
}
