//! What hostlet's own timeline says of a pod: which part of the time is the runtime's, and which is hostlet's. Measures
//! nothing itself.

use std::time::Duration;

use anyhow::{Context, Result};
use hostlet::pod::timeline::{Entry, Step};
use hostlet::server::TimelineView;
use hostlet_integration::Daemon;
use jiff::Timestamp;

use crate::lab::ask;

/// The parts of one start.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StartParts {
    /// From the manifest's being written to the call for the sandbox.
    pub(crate) before: Duration,
    /// RunPodSandbox.
    pub(crate) sandbox: Duration,
    /// From there to the call for the container.
    pub(crate) between: Duration,
    /// CreateContainer and StartContainer, and what is between these.
    pub(crate) container: Duration,
}

/// The parts of the start of the pod `name`, whose manifest was written at `written`.
pub(crate) async fn start_parts(daemon: &Daemon, name: &str, written: Timestamp) -> Result<StartParts> {
    let entries = entries(daemon, name).await?;
    let (sandbox, create) = (last(&entries, Step::Sandbox)?, last(&entries, Step::Create)?);
    let (sandbox_end, start_end) = (end(sandbox)?, end(last(&entries, Step::Start)?)?);
    Ok(StartParts {
        before: between(written, sandbox.at),
        sandbox: between(sandbox.at, sandbox_end),
        between: between(sandbox_end, create.at),
        container: between(create.at, start_end),
    })
}

/// How long after `moment` hostlet decided to make the pod's newest container.
pub(crate) async fn decided(daemon: &Daemon, name: &str, moment: Timestamp) -> Result<Duration> {
    Ok(between(moment, last(&entries(daemon, name).await?, Step::Create)?.at))
}

async fn entries(daemon: &Daemon, name: &str) -> Result<Vec<Entry>> {
    let answer = ask(daemon.socket(), &format!("/v1/timeline?pod={name}")).await?;
    let view: TimelineView = serde_json::from_slice(&answer).context("decoding a timeline")?;
    let track = view.pods.into_iter().next().with_context(|| format!("no timeline of {name}"))?;
    Ok(track.entries.into())
}

fn last(entries: &[Entry], step: Step) -> Result<&Entry> {
    let found = entries.iter().rfind(|entry| entry.step == step);
    found.with_context(|| format!("no {step:?} in {entries:?}"))
}

fn end(entry: &Entry) -> Result<Timestamp> {
    let took = entry.took_ms.with_context(|| format!("{:?} has no end", entry.step))?;
    Ok(entry.at + Duration::from_millis(took))
}

fn between(from: Timestamp, to: Timestamp) -> Duration {
    to.duration_since(from).try_into().unwrap_or_default()
}
