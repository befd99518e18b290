//! The storm itself. `HOSTLET_STORM_ROUNDS` sets its length, and `HOSTLET_STORM_SEED` replays one, as far as the machine's timing
//! allows.

use std::collections::BTreeSet;
use std::process::Child;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result};
use hostlet_integration::real::{Daemon, RealHost};
use hostlet_integration::storm::{History, Present};
use hostlet_integration::{Look, wait_for};

use super::script::{Change, Fault, Faults, OF_DISKS, OF_PROCESSES, Patience, Round, Script};
use super::settled::unsettled;
use crate::support::LATER;

/// The numbers of rounds without `HOSTLET_STORM_ROUNDS`; faults of disks take longer.
const ROUNDS: u64 = 200;
const ROUNDS_OF_DISKS: u64 = 40;
/// After this many rounds everything must settle.
const SPELL: u64 = 50;

/// Bytes of the disks of a storm: room for the images and all pods, and for the daemon's records.
const DISKS: (u64, u64) = (1 << 30, 64 << 20);

/// A host and its faults.
pub(super) struct Storm {
    /// None while it is dead. Dropped before the host, whose directory has its log.
    pub(super) daemon: Option<Daemon>,
    /// The setting of that daemon.
    pub(super) patience: Patience,
    pub(super) host: RealHost,
    /// Ends when the frozen disk continues.
    pub(super) frozen: Option<Child>,
    history: History,
}

#[tokio::test]
async fn nothing_is_lost_duplicated_or_left_behind_in_a_storm_of_kills() {
    storm(RealHost::start().await.unwrap(), OF_PROCESSES, ROUNDS).await;
}

#[tokio::test]
async fn nothing_is_lost_duplicated_or_left_behind_in_a_storm_of_disks() {
    let (all, own) = DISKS;
    storm(RealHost::start_on_disks(all, own).await.unwrap(), OF_DISKS, ROUNDS_OF_DISKS).await;
}

async fn storm(host: RealHost, faults: Faults, rounds: u64) {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let seed = setting("HOSTLET_STORM_SEED").unwrap_or(now.subsec_nanos().into());
    let rounds = setting("HOSTLET_STORM_ROUNDS").unwrap_or(rounds);
    println!("HOSTLET_STORM_SEED={seed} HOSTLET_STORM_ROUNDS={rounds}");
    let history = History::default();
    let mut storm = Storm { daemon: None, patience: Patience::Ordinary, host, frozen: None, history };
    storm
        .run(Script::new(seed, faults), rounds)
        .await
        .with_context(|| format!("HOSTLET_STORM_SEED={seed}"))
        .unwrap();
}

fn setting(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().unwrap())
}

impl Storm {
    async fn run(&mut self, mut script: Script, rounds: u64) -> Result<()> {
        for pod in script.present.values() {
            self.history.written(pod);
            self.host.write_manifest(&pod.file(), &pod.manifest())?;
        }
        self.launch_daemon(Patience::Ordinary)?;
        self.settle(&script.present).await.context("before the storm")?;
        let calm = self.calm_containers().await?;
        let mut faults = 0;
        for number in 1..=rounds {
            let round = script.round();
            faults += usize::from(round.fault != Fault::None);
            self.round(&round).await.with_context(|| format!("round {number}: {round:?}"))?;
            if number % SPELL == 0 || number == rounds {
                self.come_to_rest(&script.present).await.with_context(|| format!("after round {number}"))?;
            }
        }
        assert_eq!(self.calm_containers().await?, calm, "the containers nobody touched");
        println!("HOSTLET_STORM_FAULTS={faults}");
        for pod in script.present.values() {
            self.host.remove_manifest(&pod.file())?;
        }
        self.settle(&Present::new()).await.context("after the end")
    }

    async fn round(&mut self, round: &Round) -> Result<()> {
        for change in &round.changes {
            match change {
                Change::Write(pod) => {
                    self.history.written(pod);
                    self.host.write_manifest(&pod.file(), &pod.manifest())?;
                }
                Change::Remove(pod) => self.host.remove_manifest(&pod.file())?,
            }
        }
        self.history.watch(&self.host, round.work).await?;
        self.strike(round)?;
        self.history.watch(&self.host, round.outage).await?;
        self.relieve(round)?;
        if !self.host.disks().is_empty() && round.fault == Fault::KillRuntime {
            // On a disk that is filled while it starts, containerd takes containers that run for dead: they would run twice.
            self.host.wait_for_containerd().await?;
        }
        if self.daemon.is_none() {
            self.launch_daemon(round.patience)?;
        }
        Ok(())
    }

    pub(super) fn kill_daemon(&mut self) -> Result<()> {
        self.daemon.take().map_or(Ok(()), Daemon::kill)
    }

    pub(super) fn launch_daemon(&mut self, patience: Patience) -> Result<()> {
        self.patience = patience;
        let timeout = match patience {
            Patience::Ordinary => "",
            Patience::Short => "runtimeRequestTimeout: 1s\n",
        };
        // Short pauses, so that crashing containers restart during the storm.
        let extra = format!("crashLoopBackOff:\n  maxContainerRestartPeriod: 2s\n{timeout}");
        self.daemon = Some(self.host.launch_hostlet(&extra)?);
        Ok(())
    }

    /// Stops the faults, and waits until everything is in its expected state.
    async fn come_to_rest(&mut self, present: &Present) -> Result<()> {
        self.kill_daemon()?;
        self.launch_daemon(Patience::Ordinary)?;
        self.settle(present).await
    }

    async fn settle(&mut self, present: &Present) -> Result<()> {
        self.host.wait_for_containerd().await?;
        let daemon = self.daemon.as_ref().context("no daemon")?;
        let (host, history) = (&self.host, &mut self.history);
        wait_for("all at rest", LATER, async || {
            // A state that must never occur fails the test at once.
            let running = match history.look(host).await {
                Ok(running) => running,
                Err(error) => return Ok(Look::Done(Err(error))),
            };
            let wrong = unsettled(host, daemon, present, &running).await?;
            Ok(if wrong.is_empty() { Look::Done(Ok(())) } else { Look::NotYet(wrong.join("\n")) })
        })
        .await?
    }

    /// The containers of the unchanged pods: ID, attempt and start.
    async fn calm_containers(&self) -> Result<BTreeSet<(String, String, u32, i64)>> {
        let mut found = BTreeSet::new();
        for container in self.host.cri().containers().await? {
            let pod = container.labels.get("io.kubernetes.pod.name").cloned().unwrap_or_default();
            if pod.starts_with("calm-") {
                let started = self.host.cri().container_status(&container.id).await?.started_at;
                let attempt = container.metadata.map_or(0, |metadata| metadata.attempt);
                found.insert((pod, container.id, attempt, started));
            }
        }
        Ok(found)
    }
}
