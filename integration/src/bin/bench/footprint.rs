//! The resource use of hostlet while nothing changes: memory by number of pods, CPU, wake-ups, bytes written; and its size on disk.

use std::fs;
use std::time::Duration;

use anyhow::{Context, Result};
use hostlet_integration::Daemon;
use hostlet_integration::fake_cri::FakeHost;
use hostlet_integration::real::PAUSE_IMAGE;
use tokio::time::sleep;

use crate::lab::{Lab, manifest, until_shown};
use crate::process::{Activity, activity, cpu_seconds, memory};
use crate::report::{Row, Target, Unit};

/// How long an idle daemon is measured.
const WATCH: Duration = Duration::from_secs(30);
/// Idle time before the memory of a daemon is read: beyond the next trim of the heap.
const SETTLE: Duration = Duration::from_secs(35);
/// How often the daemon is asked for its pods. Ten times a second, the answers were half of the CPU of the starts.
const TICK: Duration = Duration::from_secs(2);

/// On a real runtime, at 0, 50 and 110 pods.
pub(crate) async fn real(lab: &Lab) -> Result<Vec<Row>> {
    let daemon = lab.daemon("").await?;
    let size = fs::metadata(daemon.program()).context("the size of the program")?.len();
    let mut rows = vec![
        Row::new("size of the program", Unit::Megabytes)
            .hostlet(size as f64 / 1e6)
            .target(Target::AtMost(15.0)),
    ];
    let mut names = Vec::new();
    for (pods, target) in [(0, Some(14.0)), (50, None), (110, Some(20.0))] {
        let cpu = cpu_seconds(daemon.pid())?;
        while names.len() < pods {
            let name = lab.name();
            lab.write_pod(&name)?;
            names.push(name);
        }
        until_shown(&daemon, pods, TICK).await?;
        if pods == 110 {
            let used = cpu_seconds(daemon.pid())? - cpu;
            rows.push(Row::new("CPU to start 60 more pods", Unit::Milliseconds).hostlet(used * 1000.0));
        }
        rows.extend(memory_rows(&daemon, &format!("{pods} pods"), target).await?);
    }
    rows.extend(idle(lab, &daemon, names.len()).await?);
    for name in &names {
        lab.remove_pod(name)?;
    }
    until_shown(&daemon, 0, TICK).await?;
    lab.until_empty(lab.watcher.mark(), 0).await?;
    rows.extend(memory_rows(&daemon, "0 pods again", None).await?);
    Ok(rows)
}

async fn idle(lab: &Lab, daemon: &Daemon, pods: usize) -> Result<Vec<Row>> {
    let (hostlet, containerd) =
        tokio::join!(activity(daemon.pid(), WATCH), activity(lab.host.containerd_pid(), WATCH));
    let mut rows = idle_rows(hostlet?, &format!("{pods} pods"));
    let metric = format!("idle with {pods} pods: CPU of containerd");
    rows.push(Row::new(metric, Unit::Millicores).hostlet(containerd?.millicores));
    Ok(rows)
}

/// On a fake runtime, with 0, 110 and 500 pods: one daemon each, so that none has memory of an earlier scenario.
pub(crate) async fn fake() -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    for (pods, target) in [(0, 14.0), (110, 20.0), (500, 45.0)] {
        let host = FakeHost::start()?;
        host.runtime().add_image(PAUSE_IMAGE);
        let daemon = host.start_hostlet("maxPods: 500").await?;
        for number in 0..pods {
            let name = format!("p{number}");
            host.write_manifest(&format!("{name}.json"), &manifest(&name))?;
        }
        until_shown(&daemon, pods, TICK).await?;
        let when = format!("{pods} pods, fake runtime");
        rows.extend(memory_rows(&daemon, &when, Some(target)).await?);
        rows.extend(idle_rows(activity(daemon.pid(), WATCH).await?, &when));
    }
    Ok(rows)
}

fn idle_rows(activity: Activity, when: &str) -> Vec<Row> {
    let row = |metric: &str, unit| Row::new(format!("idle with {when}: {metric}"), unit);
    // With more pods than the default maximum of a node, it may be more.
    let most = if when.starts_with("500") { 6.0 } else { 3.0 };
    vec![
        row("CPU", Unit::Millicores).hostlet(activity.millicores).target(Target::AtMost(most)),
        row("voluntary context switches", Unit::PerSecond).hostlet(activity.wakeups),
        row("written in 30 s", Unit::Bytes).hostlet(activity.written).target(Target::AtMost(0.0)),
    ]
}

async fn memory_rows(daemon: &Daemon, when: &str, target: Option<f64>) -> Result<Vec<Row>> {
    sleep(SETTLE).await;
    let memory = memory(daemon.pid())?;
    let row = |metric: &str, bytes: f64| {
        Row::new(format!("memory with {when}: {metric}"), Unit::Megabytes).hostlet(bytes / 1e6)
    };
    let rss = row("RSS", memory.rss);
    Ok(vec![
        match target {
            Some(limit) => rss.target(Target::AtMost(limit)),
            None => rss,
        },
        row("private", memory.private),
        row("peak RSS", memory.peak),
    ])
}
