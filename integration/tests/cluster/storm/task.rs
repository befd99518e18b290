//! The storm itself. `HOSTLET_STORM_ROUNDS` sets its length, and `HOSTLET_STORM_SEED` replays one, as far as the machine's timing
//! allows.

use std::collections::BTreeMap;
use std::fs;

use anyhow::{Context, Result, ensure};
use hostlet_integration::cluster::{Agent, Node, Tenant};
use hostlet_integration::storm::{History, Present, StormPod};
use hostlet_integration::{Look, wait_for};
use k8s_openapi::api::core::v1::{Event, Pod};
use kube::Api;
use kube::api::{DeleteParams, ListParams};
use nix::sys::signal::Signal;
use serde_json::{Value, json};

use super::script::{Change, Fault, Round, Script};
use super::settled::unsettled;
use crate::support::{LATER, statuses, wait_until_clean};

/// The number of rounds without `HOSTLET_STORM_ROUNDS`.
const ROUNDS: u64 = 10;
/// After this many rounds everything must settle.
const SPELL: u64 = 25;
/// How far a threshold is above the available memory, in KiB, to be crossed whatever others free.
const BEYOND: u64 = 2 << 20;

struct Storm {
    tenant: Tenant,
    history: History,
}

#[tokio::test]
async fn nothing_is_lost_duplicated_or_left_behind_in_a_storm_of_the_api_server() {
    if Agent::chosen().unwrap() == Agent::Stock {
        return; // It runs what it must not in such a storm, too; nobody compares.
    }
    let seed = setting("HOSTLET_STORM_SEED").unwrap_or_else(rand::random);
    let rounds = setting("HOSTLET_STORM_ROUNDS").unwrap_or(ROUNDS);
    println!("HOSTLET_STORM_SEED={seed} HOSTLET_STORM_ROUNDS={rounds}");
    let tenant = Tenant::alone("storm", 1, &settings(None)).await.unwrap();
    let mut storm = Storm { tenant, history: History::default() };
    storm.run(seed, rounds).await.with_context(|| format!("HOSTLET_STORM_SEED={seed}")).unwrap();
}

fn setting(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().unwrap())
}

/// Fields of `KubeletConfiguration`, with a threshold of memory in KiB.
fn settings(memory: Option<u64>) -> Value {
    let memory = memory.map_or("50Mi".to_owned(), |kib| format!("{kib}Ki"));
    json!({
        // Short pauses, so that crashing containers restart during the storm.
        "crashLoopBackOff": {"maxContainerRestartPeriod": "2s"},
        "evictionHard": {"memory.available": memory, "nodefs.available": "50Mi", "imagefs.available": "50Mi"},
        "evictionPressureTransitionPeriod": "2s",
    })
}

impl Storm {
    async fn run(&mut self, seed: u64, rounds: u64) -> Result<()> {
        let mut script = Script::new(seed);
        for pod in script.present.values() {
            self.create(pod).await?;
        }
        self.settle(&script.present).await.context("before the storm")?;
        let calm = self.calm_containers().await?;
        let mut faults = 0;
        for number in 1..=rounds {
            let round = script.round();
            faults += usize::from(round.fault != Fault::None);
            self.round(&round).await.with_context(|| format!("round {number}: {round:?}"))?;
            if number % SPELL == 0 || number == rounds {
                self.settle(&script.present).await.with_context(|| format!("after round {number}"))?;
            }
        }
        assert_eq!(self.calm_containers().await?, calm, "the containers nobody touched");
        self.check_node().await?;
        println!("HOSTLET_STORM_FAULTS={faults}");
        for pod in script.present.values() {
            self.delete(pod).await?;
        }
        self.settle(&Present::new()).await.context("after the end")?;
        wait_until_clean(&self.tenant.nodes[0]).await
    }

    async fn round(&mut self, round: &Round) -> Result<()> {
        for change in &round.changes {
            match change {
                Change::Create(pod) => self.create(pod).await?,
                Change::Delete(pod) => self.delete(pod).await?,
            }
        }
        self.history.watch(self.tenant.nodes[0].host(), round.work).await?;
        self.strike(round.fault)?;
        self.history.watch(self.tenant.nodes[0].host(), round.outage).await?;
        self.relieve(round.fault).await
    }

    fn strike(&mut self, fault: Fault) -> Result<()> {
        let cluster = self.tenant.cluster();
        match fault {
            Fault::None | Fault::KillAgent | Fault::Pressure => {}
            Fault::KillServer | Fault::KillServerAndAgent => cluster.stop_api_server()?,
            Fault::FreezeServer | Fault::FreezeServerAndKillAgent => {
                cluster.signal_api_server(Signal::SIGSTOP)?
            }
            Fault::CutOff | Fault::CutOffAndKillAgent => self.node().cut_off(true)?,
        }
        match fault {
            Fault::None | Fault::KillServer | Fault::FreezeServer | Fault::CutOff => Ok(()),
            Fault::KillAgent => self.node().kill_agent(),
            Fault::KillServerAndAgent | Fault::FreezeServerAndKillAgent | Fault::CutOffAndKillAgent => {
                self.node().kill_agent()?;
                self.node().start_agent()
            }
            Fault::Pressure => self.restart_agent(Some(available()? + BEYOND)),
        }
    }

    async fn relieve(&mut self, fault: Fault) -> Result<()> {
        let cluster = self.tenant.cluster();
        match fault {
            Fault::None => Ok(()),
            Fault::KillAgent => self.node().start_agent(),
            Fault::KillServer | Fault::KillServerAndAgent => cluster.start_api_server().await,
            Fault::FreezeServer | Fault::FreezeServerAndKillAgent => {
                cluster.signal_api_server(Signal::SIGCONT)
            }
            Fault::CutOff | Fault::CutOffAndKillAgent => self.node().cut_off(false),
            Fault::Pressure => self.restart_agent(None),
        }
    }

    fn restart_agent(&mut self, memory: Option<u64>) -> Result<()> {
        self.node().kill_agent()?;
        self.node().configure(&settings(memory));
        self.node().start_agent()
    }

    fn node(&mut self) -> &mut Node {
        &mut self.tenant.nodes[0]
    }

    async fn create(&mut self, pod: &StormPod) -> Result<()> {
        self.history.written(pod);
        let mut object = pod.object();
        object["metadata"] = json!({"name": pod.name});
        object["spec"]["nodeName"] = json!(self.node().name());
        if pod.name.starts_with("calm") {
            object["spec"]["priorityClassName"] = json!("system-node-critical");
        }
        self.tenant.create_pod(object).await?;
        Ok(())
    }

    async fn delete(&self, pod: &StormPod) -> Result<()> {
        self.tenant.api::<Pod>().delete(&pod.name, &DeleteParams::default()).await?;
        Ok(())
    }

    /// Waits until everything is in its expected state.
    async fn settle(&mut self, present: &Present) -> Result<()> {
        let (tenant, history) = (&self.tenant, &mut self.history);
        wait_for("all at rest", LATER, async || {
            // A state that must never occur fails the test at once.
            let running = match history.look(tenant.nodes[0].host()).await {
                Ok(running) => running,
                Err(error) => return Ok(Look::Done(Err(error))),
            };
            let wrong = unsettled(tenant, present, &running).await?;
            Ok(if wrong.is_empty() { Look::Done(Ok(())) } else { Look::NotYet(wrong.join("\n")) })
        })
        .await?
    }

    /// The containers of the unchanged pods, and how often they restarted.
    async fn calm_containers(&self) -> Result<BTreeMap<String, (Option<String>, i32)>> {
        let pods = self.tenant.api::<Pod>().list(&ListParams::default()).await?.items;
        let calm = Script::calm();
        let is_calm = |pod: &&Pod| calm.iter().any(|it| Some(&it.name) == pod.metadata.name.as_ref());
        let containers = pods.iter().filter(is_calm).flat_map(|pod| {
            let name = pod.metadata.name.clone().unwrap_or_default();
            statuses(pod).iter().map(move |status| (format!("{name}/{}", status.name), status))
        });
        Ok(containers.map(|(name, it)| (name, (it.container_id.clone(), it.restart_count))).collect())
    }

    /// The agent never reported its node as not ready, since the runtime always responded.
    async fn check_node(&self) -> Result<()> {
        let events: Api<Event> = Api::namespaced(self.tenant.client(), "default");
        let events = events.list(&ListParams::default()).await?.items;
        let of_agent = |event: &&Event| {
            event.source.as_ref().and_then(|source| source.component.as_deref()) == Some("kubelet")
        };
        let flips: Vec<&Event> = events
            .iter()
            .filter(of_agent)
            .filter(|event| event.reason.as_deref() == Some("NodeNotReady"))
            .collect();
        ensure!(flips.is_empty(), "the node was not ready: {flips:?}");
        Ok(())
    }
}

/// The memory that the machine has available, in KiB.
fn available() -> Result<u64> {
    let text = fs::read_to_string("/proc/meminfo").context("reading /proc/meminfo")?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"));
    let number = line.and_then(|line| line.split_whitespace().next()).context("no MemAvailable")?;
    number.parse().with_context(|| format!("a number: {number}"))
}
