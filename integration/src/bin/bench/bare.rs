//! One sample of what bare calls of the runtime take for one pod, to be measured in turns with an agent.

use std::time::Duration;

use anyhow::Result;
use tokio::time::Instant;

use crate::lab::Lab;
use crate::single::{kill_container, stop_bare, until_exited};
use crate::stats::median_of;

/// The starts of pods.
#[derive(Default)]
pub(crate) struct BareStarts {
    /// What each took.
    pub(crate) all: Vec<Duration>,
    /// What of it the sandbox and the container took.
    parts: Vec<(Duration, Duration)>,
}

impl BareStarts {
    /// Starts one more and removes it.
    pub(crate) async fn sample(&mut self, lab: &Lab) -> Result<()> {
        let begin = Instant::now();
        let pod = lab.start_bare().await?;
        let took = begin.elapsed();
        self.all.push(took);
        self.parts.push((pod.sandbox_took, took - pod.sandbox_took));
        stop_bare(lab, pod).await.map(drop)
    }

    /// What a sandbox takes, milliseconds.
    pub(crate) fn sandbox(&self) -> f64 {
        median_of(&self.parts, |parts| parts.0)
    }

    /// What a container takes, milliseconds.
    pub(crate) fn container(&self) -> f64 {
        median_of(&self.parts, |parts| parts.1)
    }
}

/// The restarts of containers that died.
#[derive(Default)]
pub(crate) struct BareRestarts {
    /// Killed → the CRI shows the end.
    pub(crate) seen: Vec<Duration>,
    /// Killed → the next one runs.
    pub(crate) all: Vec<Duration>,
}

impl BareRestarts {
    /// Makes one more.
    pub(crate) async fn sample(&mut self, lab: &Lab) -> Result<()> {
        let mark = lab.watcher.mark();
        let pod = lab.start_bare().await?;
        let (begin, _) = kill_container(&lab.watcher, mark, &pod.container_id).await?;
        until_exited(lab, &pod.container_id).await?;
        self.seen.push(begin.elapsed());
        lab.host.cri().run_pause(&pod.sandbox, &pod.sandbox_id, 1).await?;
        self.all.push(begin.elapsed());
        stop_bare(lab, pod).await.map(drop)
    }
}
