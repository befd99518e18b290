//! What hostlet's own timeline says of a pod: which part of the time is the runtime's, and which is hostlet's. Measures
//! nothing itself.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use hostlet_observe::status::timeline::{TimelineEntry, TimelineStep};
use hostlet_serve::server::TimelineView;
use jiff::Timestamp;

use crate::lab::ask;

/// The parts of one start.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StartParts {
    /// From the pod's being created, as a manifest or in the API, to the call for the sandbox.
    pub(crate) before: Duration,
    /// RunPodSandbox.
    pub(crate) sandbox: Duration,
    /// From there to the call for the container.
    pub(crate) between: Duration,
    /// CreateContainer and StartContainer, and what is between these.
    pub(crate) container: Duration,
}

impl StartParts {
    /// From the pod's being created to its container's running.
    pub(crate) fn all(&self) -> Duration {
        self.before + self.sandbox + self.between + self.container
    }
}

/// The steps of the start of the pod `name`, created at `created`, from the daemon's timeline.
pub(crate) async fn start_parts(socket: &Path, name: &str, created: Timestamp) -> Result<StartParts> {
    let entries = entries(socket, name).await?;
    let (sandbox, create) = (last(&entries, TimelineStep::Sandbox)?, last(&entries, TimelineStep::Create)?);
    let (sandbox_end, start_end) = (end(sandbox)?, end(last(&entries, TimelineStep::Start)?)?);
    Ok(StartParts {
        before: between(created, sandbox.at),
        sandbox: between(sandbox.at, sandbox_end),
        between: between(sandbox_end, create.at),
        container: between(create.at, start_end),
    })
}

/// How long after `moment` hostlet decided to make the pod's newest container.
pub(crate) async fn decided(socket: &Path, name: &str, moment: Timestamp) -> Result<Duration> {
    Ok(between(moment, last(&entries(socket, name).await?, TimelineStep::Create)?.at))
}

async fn entries(socket: &Path, name: &str) -> Result<Vec<TimelineEntry>> {
    let answer = ask(socket, &format!("/v1/timeline?pod={name}")).await?;
    let view: TimelineView = serde_json::from_slice(&answer).context("decoding a timeline")?;
    let track = view.pods.into_iter().next().with_context(|| format!("no timeline of {name}"))?;
    Ok(track.entries.into())
}

fn last(entries: &[TimelineEntry], step: TimelineStep) -> Result<&TimelineEntry> {
    let found = entries.iter().rfind(|entry| entry.step == step);
    found.with_context(|| format!("no {step:?} in {entries:?}"))
}

fn end(entry: &TimelineEntry) -> Result<Timestamp> {
    let took = entry.took_ms.with_context(|| format!("{:?} has no end", entry.step))?;
    Ok(entry.at + Duration::from_millis(took))
}

fn between(from: Timestamp, to: Timestamp) -> Duration {
    to.duration_since(from).try_into().unwrap_or_default()
}
