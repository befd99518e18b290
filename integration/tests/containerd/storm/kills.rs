//! SIGKILL of the daemon during starts and stops: before, during and after each call, during store writes, and
//! `HOSTLET_STORM_KILLS` times at random instants. No pod fails or runs twice because of it, and no shim is left. Then SIGKILL of
//! containerd: the outcome of its starts may be unknown, but nothing runs twice either.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use hostlet_integration::real::{BUSYBOX_IMAGE, Daemon, Moment, RealHost, Trap};
use hostlet_integration::{Look, wait_for};
use hostlet_runtime::cri::CriClient;
use k8s_openapi::api::core::v1::Pod;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use serde_json::json;
use tokio::time::sleep;

use crate::support::{IDLE, is_ready, statuses, uid, wait_until_ready};

/// Timeout until everything has settled on a slow machine: a leftover shim is observed for five minutes before it is killed.
const REST: Duration = Duration::from_secs(480);
/// Timeout of a call to which a healthy runtime responds at once.
const SECONDS: Duration = Duration::from_secs(30);
/// The calls of a start, in this order.
const STARTS: [&str; 3] = ["RunPodSandbox", "CreateContainer", "StartContainer"];
/// The calls of a stop, in this order.
const ENDS: [&str; 5] =
    ["StopContainer", "StopPodSandbox", "RemoveContainer", "RemovePodSandbox", "ListPodSandbox"];
/// How many store writes are interrupted.
const STORE_WRITES: usize = 5;
/// Long enough for containerd to be in the middle of a start, and too short to complete it.
const MIDDLE: Duration = Duration::from_millis(15);

/// The script of a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Never,
    OnFailure,
    Idle,
}

/// The host under test: pods are written in batches, and each kill removes the idle pod of the previous batch.
struct Kills {
    /// None while it is dead. Dropped before the host, whose directory has its log.
    daemon: Option<Daemon>,
    host: RealHost,
    /// None if containerd is killed.
    trap: Option<Trap>,
    /// Each container records there that it runs.
    runs: PathBuf,
    pods: BTreeMap<String, Kind>,
    batch: usize,
}

#[tokio::test]
async fn killing_the_daemon_during_a_start_neither_fails_a_pod_nor_runs_it_twice() {
    let mut kills = Kills::begin().await.unwrap();
    let points = [
        Moment::During("RunPodSandbox", MIDDLE),
        Moment::After("CreateContainer"),
        Moment::Before("StartContainer"),
        Moment::During("StartContainer", MIDDLE),
        Moment::After("StartContainer"),
    ];
    for point in points {
        kills.at(point).await.with_context(|| format!("{point:?}")).unwrap();
    }
    kills.come_to_rest().await.unwrap();
}

#[tokio::test]
async fn killing_the_daemon_anywhere_leaves_nothing_behind() {
    let Some((count, mut chance)) = requested_kills() else { return };
    let mut kills = Kills::begin().await.unwrap();
    let mut faults = count;
    for call in STARTS.into_iter().chain(ENDS) {
        for point in [Moment::Before(call), Moment::During(call, MIDDLE), Moment::After(call)] {
            faults += 1;
            // Only a pod that started can stop.
            kills.last_runs().await.unwrap();
            kills.at(point).await.with_context(|| format!("{point:?}")).unwrap();
        }
    }
    for _ in 0..STORE_WRITES {
        faults += 1;
        kills.at(Moment::StoreWrite).await.unwrap();
    }
    kills.come_to_rest().await.unwrap();
    for number in 1..=count {
        kills.within(Duration::from_micros(chance.random_range(0..700_000))).await.unwrap();
        if number % 25 == 0 {
            kills.come_to_rest().await.with_context(|| format!("after kill {number}")).unwrap();
        }
    }
    kills.come_to_rest().await.unwrap();
    kills.no_shim_is_left().await.unwrap();
    println!("HOSTLET_STORM_FAULTS={faults}");
}

#[tokio::test]
async fn killing_containerd_anywhere_runs_nothing_twice_and_leaves_nothing_behind() {
    let Some((count, mut chance)) = requested_kills() else { return };
    let mut kills = Kills::on(RealHost::start().await.unwrap(), None).await.unwrap();
    for number in 1..=count {
        kills.change().unwrap();
        sleep(Duration::from_micros(chance.random_range(0..700_000))).await;
        kills.host.kill_containerd().unwrap();
        kills.host.launch_containerd().unwrap();
        if number % 25 == 0 || number == count {
            kills.host.wait_for_containerd().await.unwrap();
            kills.come_to_rest().await.with_context(|| format!("after kill {number}")).unwrap();
        }
    }
    kills.no_shim_is_left().await.unwrap();
    println!("HOSTLET_STORM_FAULTS={count}");
}

/// The number of kills, and the source of their randomness.
fn requested_kills() -> Option<(usize, StdRng)> {
    let Ok(count) = std::env::var("HOSTLET_STORM_KILLS") else {
        println!("skipped: set HOSTLET_STORM_KILLS to the number of kills");
        return None;
    };
    let seed =
        std::env::var("HOSTLET_STORM_SEED").map_or_else(|_| rand::random(), |seed| seed.parse().unwrap());
    println!("HOSTLET_STORM_SEED={seed} HOSTLET_STORM_KILLS={count}");
    Some((count.parse().unwrap(), StdRng::seed_from_u64(seed)))
}

#[tokio::test]
async fn a_shim_that_containerd_lost_is_terminated_and_others_are_not() {
    if requested_kills().is_none() {
        return;
    }
    let host = RealHost::start().await.unwrap();
    // runc's state of a container would outlive it otherwise, and block the next run.
    let runc = host.directory("runc").unwrap();
    for id in ["forgotten", "kept"] {
        let root = runc.to_str().unwrap();
        host.ctr(&["run", "--detach", "--runc-root", root, BUSYBOX_IMAGE, id, "sleep", "100000"]).unwrap();
    }
    CriClient::new(host.socket(), SECONDS).forget_stored("forgotten").await.unwrap();
    let bundles = host.socket().parent().unwrap().join("io.containerd.runtime.v2.task/k8s.io");
    assert!(bundles.join("forgotten").exists());
    let daemon = host.start_hostlet("").await.unwrap();
    let ended = wait_for("the forgotten shim's end", REST, async || {
        let shims = host.shims_of_nobody().await?;
        let is_left =
            shims.iter().any(|shim| shim.contains("forgotten")) || bundles.join("forgotten").exists();
        Ok(if is_left { Look::NotYet(daemon.log()) } else { Look::Done(shims) })
    });
    let left = ended.await.unwrap();
    assert!(left.len() == 1 && left[0].contains("kept"), "{left:?}");
    assert!(!fs::read_to_string("/proc/self/mountinfo").unwrap().contains("k8s.io/forgotten/"));
}

impl Kills {
    async fn begin() -> Result<Self> {
        let host = RealHost::start().await?;
        let trap = host.lay_trap()?;
        Self::on(host, Some(trap)).await
    }

    async fn on(host: RealHost, trap: Option<Trap>) -> Result<Self> {
        let runs = host.directory("runs")?;
        let mut kills = Self { daemon: None, host, trap, runs, pods: BTreeMap::new(), batch: 0 };
        kills.launch().await?;
        Ok(kills)
    }

    async fn launch(&mut self) -> Result<()> {
        self.daemon =
            Some(self.host.start_hostlet("crashLoopBackOff:\n  maxContainerRestartPeriod: 2s\n").await?);
        Ok(())
    }

    /// Writes new pods and removes an old one.
    fn change(&mut self) -> Result<()> {
        self.batch += 1;
        for (name, kind) in [("never", Kind::Never), ("retry", Kind::OnFailure), ("idle", Kind::Idle)] {
            let name = format!("{name}-{}", self.batch);
            self.host.write_manifest(&format!("{name}.json"), &self.manifest(&name, kind))?;
            self.pods.insert(name, kind);
        }
        self.remove(&format!("idle-{}", self.batch - 1))
    }

    fn remove(&mut self, name: &str) -> Result<()> {
        match self.pods.remove(name) {
            Some(_) => self.host.remove_manifest(&format!("{name}.json")),
            None => Ok(()),
        }
    }

    fn manifest(&self, name: &str, kind: Kind) -> String {
        let (policy, then) = match kind {
            Kind::Never => ("Never", "true"),
            Kind::OnFailure => ("OnFailure", "true"),
            Kind::Idle => ("Always", IDLE),
        };
        let script = format!("echo ran >> /runs/{name}; {then}");
        json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": name, "namespace": "default"},
            "spec": {
                "restartPolicy": policy,
                "terminationGracePeriodSeconds": 1,
                "containers": [{
                    "name": "c", "image": BUSYBOX_IMAGE, "command": ["sh", "-c", script],
                    "volumeMounts": [{"name": "runs", "mountPath": "/runs"}],
                }],
                "volumes": [{"name": "runs", "hostPath": {"path": self.runs}}],
            },
        })
        .to_string()
    }

    /// Waits until the pod runs that the next batch removes.
    async fn last_runs(&self) -> Result<()> {
        let name = format!("idle-{}", self.batch);
        if self.pods.contains_key(&name) {
            wait_until_ready(self.daemon.as_ref().context("no daemon")?, &name).await?;
        }
        Ok(())
    }

    /// Kills the daemon at a point of the work on new pods, and restarts it.
    async fn at(&mut self, moment: Moment) -> Result<()> {
        let pid = self.daemon.as_ref().context("no daemon")?.pid();
        let trap = self.trap.clone().context("no trap")?;
        trap.set(moment, pid);
        self.change()?;
        wait_for("the moment", REST, async || {
            Ok(if trap.has_sprung() { Look::Done(()) } else { Look::NotYet("it did not come".to_owned()) })
        })
        .await?;
        self.restart().await
    }

    /// The same, this long after the pods were written.
    async fn within(&mut self, time: Duration) -> Result<()> {
        self.change()?;
        sleep(time).await;
        self.restart().await
    }

    async fn restart(&mut self) -> Result<()> {
        self.daemon.take().map_or(Ok(()), Daemon::kill)?;
        self.launch().await
    }

    /// Waits until every pod is in its desired state, then removes all pods and waits until nothing is left of them.
    async fn come_to_rest(&mut self) -> Result<()> {
        let daemon = self.daemon.as_ref().context("no daemon")?;
        wait_for("every pod is as it should be", REST, async || {
            let shown: BTreeMap<String, Pod> = daemon
                .pods()?
                .into_iter()
                .map(|pod| (pod.metadata.name.clone().unwrap_or_default(), pod))
                .collect();
            let mut wrong = Vec::new();
            for (name, &kind) in &self.pods {
                let pod = shown.get(&format!("{name}-node1"));
                let status = || pod.map(|pod| serde_json::to_string(&pod.status)).transpose();
                // The outcome of a killed containerd's calls is unknown.
                let may_fail = self.trap.is_none();
                match pod.map(|pod| judge(kind, pod, self.times_run(name), may_fail)) {
                    Some(Verdict::AsItShould) => {}
                    Some(Verdict::NotYet) | None => wrong.push(format!("{name} is {:?}", status()?)),
                    Some(Verdict::Never(what)) => {
                        return Ok(Look::Done(Err(anyhow::anyhow!("{name} {what}: {:?}", status()?))));
                    }
                }
            }
            Ok(if wrong.is_empty() { Look::Done(Ok(())) } else { Look::NotYet(wrong.join("\n")) })
        })
        .await??;
        for name in self.pods.keys().cloned().collect::<BTreeSet<_>>() {
            self.remove(&name)?;
        }
        let daemon = self.daemon.as_ref().context("no daemon")?;
        wait_for("nothing is left", REST, async || {
            let (pods, sandboxes) = (daemon.pods()?, self.host.cri().sandboxes().await?);
            let strays = self.host.strays(&pods.iter().map(uid).collect::<HashSet<_>>()).await?;
            let is_empty = pods.is_empty() && sandboxes.is_empty() && strays.is_empty();
            let left =
                || format!("{} pods, {} sandboxes, {}", pods.len(), sandboxes.len(), strays.join("\n"));
            Ok(if is_empty { Look::Done(()) } else { Look::NotYet(left()) })
        })
        .await
    }

    /// How often a pod's container ran.
    fn times_run(&self, name: &str) -> usize {
        fs::read_to_string(self.runs.join(name)).unwrap_or_default().lines().count()
    }

    async fn no_shim_is_left(&self) -> Result<()> {
        wait_for("no shim is left", REST, async || {
            let left = self.host.shims_of_nobody().await?;
            Ok(if left.is_empty() { Look::Done(()) } else { Look::NotYet(left.join("\n")) })
        })
        .await
        .or_else(|error| bail!("{error:#}\n{}", self.daemon.as_ref().map(Daemon::log).unwrap_or_default()))
    }
}

/// The state of a pod.
enum Verdict {
    AsItShould,
    NotYet,
    /// A state that must never occur.
    Never(&'static str),
}

fn judge(kind: Kind, pod: &Pod, runs: usize, may_fail: bool) -> Verdict {
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref()).unwrap_or_default();
    match (kind, phase) {
        (Kind::Idle, _) if is_ready(pod) => Verdict::AsItShould,
        (Kind::Never, _) if runs > 1 => Verdict::Never("ran again"),
        (Kind::Never | Kind::OnFailure, "Succeeded") if runs == 0 => {
            Verdict::Never("succeeded and did not run")
        }
        (Kind::Never | Kind::OnFailure, "Succeeded") => Verdict::AsItShould,
        // The runtime cancelled a start that it had passed on: the process may have run for a moment.
        (Kind::Never, "Failed") if may_fail || was_passed_on(pod) => Verdict::AsItShould,
        (Kind::Never | Kind::OnFailure, "Failed") => Verdict::Never("failed"),
        (Kind::Idle | Kind::Never | Kind::OnFailure, _) => Verdict::NotYet,
    }
}

fn was_passed_on(pod: &Pod) -> bool {
    let ended =
        |status: &k8s_openapi::api::core::v1::ContainerStatus| status.state.clone()?.terminated?.message;
    statuses(pod).iter().filter_map(ended).any(|message| message.contains("failed to start containerd task"))
}
