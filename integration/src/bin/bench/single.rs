//! One pod at a time: start, end, and a container that dies. Bare calls and hostlet take turns, so that both see the same
//! machine.

use std::time::Duration;

use anyhow::{Context, Result};
use hostlet_integration::Daemon;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tokio::time::{Instant, sleep};

use crate::lab::{BarePod, LONG, Lab, TICK, until_shown};
use crate::report::{Row, Target, Unit};
use crate::stats::{median_ms, p90_ms};
use crate::watch::{Event, What};

/// Samples of each figure.
const SAMPLES: usize = 25;

/// Create → Running.
pub(crate) async fn start(lab: &Lab) -> Result<Vec<Row>> {
    let daemon = lab.daemon("").await?;
    let (mut bare, mut runs, mut shown) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..SAMPLES {
        let begin = Instant::now();
        let pod = lab.start_bare().await?;
        bare.push(begin.elapsed());
        stop_bare(lab, pod).await?;

        let (name, took, seen) = start_pod(lab, &daemon).await?;
        runs.push(took);
        shown.push(seen);
        end_pod(lab, &daemon, &name).await?;
    }
    let row = |metric: &str, hostlet: &[Duration]| {
        Row::new(metric, Unit::Milliseconds).bare(median_ms(&bare)).hostlet(median_ms(hostlet))
    };
    Ok(vec![
        row("one pod: created -> runs, p50", &runs).target(Target::Added(8.0)),
        Row::new("one pod: created -> runs, p90", Unit::Milliseconds)
            .bare(p90_ms(&bare))
            .hostlet(p90_ms(&runs)),
        row("one pod: created -> Ready in `hostlet pods`, p50", &shown),
    ])
}

/// Deleted → gone from the runtime.
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
    let (mut bare, mut runs, mut decided) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..SAMPLES {
        let mark = lab.watcher.mark();
        let pod = lab.start_bare().await?;
        let begin = kill_container(lab, mark, &pod.container_id).await?;
        lab.host.cri().run_pause(&pod.sandbox, &pod.sandbox_id, 1).await?;
        bare.push(begin.elapsed());
        stop_bare(lab, pod).await?;

        // A pod of its own each time: a second death within ten minutes would wait in back-off.
        let mark = lab.watcher.mark();
        let (name, ..) = start_pod(lab, &daemon).await?;
        let containers = lab.host.cri().containers().await?;
        let container = containers.first().context("the pod has no container")?;
        let killed = kill_container(lab, mark, &container.id).await?;
        let (created, runs_again) = lab
            .watcher
            .wait(mark, "the next container runs", LONG, |events| {
                let after = |event: &&Event| event.at > killed;
                let created = events.iter().filter(after).find(|event| event.what == What::Created)?;
                let runs = events
                    .iter()
                    .find(|event| event.id == created.id && matches!(event.what, What::Started(_)))?;
                Some((created.at, runs.at))
            })
            .await?;
        runs.push(runs_again.duration_since(killed));
        decided.push(created.duration_since(killed));
        until_shown(&daemon, 1, TICK).await?;
        end_pod(lab, &daemon, &name).await?;
    }
    Ok(vec![
        Row::new("container killed -> next one runs, p50", Unit::Milliseconds)
            .bare(median_ms(&bare))
            .hostlet(median_ms(&runs))
            .target(Target::Added(50.0)),
        // The decision itself is a little before its first trace in the runtime.
        Row::new("container killed -> next one's record created, p50", Unit::Milliseconds)
            .hostlet(median_ms(&decided))
            .target(Target::AtMost(50.0)),
        Row::new("container killed -> next one's record created, p90", Unit::Milliseconds)
            .hostlet(p90_ms(&decided))
            .target(Target::AtMost(50.0)),
    ])
}

/// Kills a container's process; when containerd told its exit.
async fn kill_container(lab: &Lab, mark: usize, id: &str) -> Result<Instant> {
    let pid = lab
        .watcher
        .wait(mark, "the container's pid", LONG, |events| {
            events.iter().find_map(|event| match event.what {
                What::Started(pid) if event.id == id => Some(pid),
                What::Started(_) | What::Created | What::Exited | What::Removed => None,
            })
        })
        .await?;
    kill(Pid::from_raw(i32::try_from(pid)?), Signal::SIGKILL).context("killing the container's process")?;
    lab.watcher
        .wait(mark, "the container's exit", LONG, |events| {
            events.iter().find(|event| event.id == id && event.what == What::Exited).map(|event| event.at)
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

/// Deletes it; how long until the runtime had nothing of it. Returns when hostlet is done with it as well.
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

async fn stop_bare(lab: &Lab, pod: BarePod) -> Result<Duration> {
    let begin = Instant::now();
    lab.stop_bare(pod).await?;
    let took = begin.elapsed();
    pause().await;
    Ok(took)
}

/// Lets the shims of the pod that ended end too.
async fn pause() {
    sleep(Duration::from_millis(233)).await;
}
