//! The observed runs, and what must never happen: a container that runs twice in parallel, or again although it must run only once.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use anyhow::{Result, bail};
use hostlet_proto::cri::{Container, ContainerState};
use tokio::time::{Instant, sleep, timeout};

use super::pods::{Kind, Mark, StormPod};
use crate::real::{ContainerProcess, RealHost};

/// Interval between two observations.
const PAUSE: Duration = Duration::from_millis(50);
/// How long an observation waits for the runtime, which may be dead or frozen.
const PATIENCE: Duration = Duration::from_millis(100);

/// All processes observed so far.
#[derive(Debug, Default)]
pub struct History {
    /// The containers that the runtime listed as running. Not all whose process was observed: a runtime whose client
    /// disconnected cancels the start of a container, which may have run for a moment.
    started: BTreeMap<Mark, BTreeSet<String>>,
    /// The kind of each pod, by its manifest's name.
    kinds: BTreeMap<String, Kind>,
    /// Versions of pods that were removed and added again unchanged: these start again.
    returned: BTreeSet<(String, usize)>,
}

impl History {
    /// Records that a manifest is written.
    pub fn written(&mut self, pod: &StormPod) {
        self.kinds.insert(pod.name.clone(), pod.kind);
        if self.started.keys().any(|mark| mark.pod == pod.name && mark.version == pod.version) {
            self.returned.insert((pod.name.clone(), pod.version));
        }
    }

    /// Observes repeatedly for a while.
    pub async fn watch(&mut self, host: &RealHost, time: Duration) -> Result<()> {
        let end = Instant::now() + time;
        loop {
            self.look(host).await?;
            if Instant::now() >= end {
                return Ok(());
            }
            sleep(PAUSE.min(end - Instant::now())).await;
        }
    }

    /// The processes that run now.
    pub async fn look(&mut self, host: &RealHost) -> Result<BTreeMap<Mark, ContainerProcess>> {
        let mut running: BTreeMap<Mark, ContainerProcess> = BTreeMap::new();
        for process in host.container_processes()? {
            let Some(mark) = Mark::of(&process.command) else { continue };
            let twin = running.iter().find(|(m, _)| m.pod == mark.pod && m.container == mark.container);
            // The other process may have exited since it was observed: two run in parallel only if it still exists.
            if let Some((other, twin)) = twin.filter(|(_, twin)| twin.is_alive() && process.is_alive()) {
                bail!("{mark} runs twice: {process:?} beside {other} {twin:?}");
            }
            running.insert(mark, process);
        }
        if let Ok(Ok(containers)) = timeout(PATIENCE, host.cri().containers()).await {
            let runs = |c: &Container| c.state == ContainerState::ContainerRunning as i32;
            let started: BTreeSet<String> = containers.into_iter().filter(runs).map(|c| c.id).collect();
            for (mark, process) in &running {
                if started.contains(&process.container) {
                    self.started.entry(mark.clone()).or_default().insert(process.container.clone());
                }
            }
        }
        self.check_restarts()?;
        Ok(running)
    }

    fn check_restarts(&self) -> Result<()> {
        for (mark, containers) in &self.started {
            let runs_once = self.kinds.get(&mark.pod).is_some_and(|kind| kind.runs_once());
            let has_returned = self.returned.contains(&(mark.pod.clone(), mark.version));
            if runs_once && !has_returned && containers.len() > 1 {
                bail!("{mark} was started again, which nothing requested: {containers:?}");
            }
        }
        Ok(())
    }
}
