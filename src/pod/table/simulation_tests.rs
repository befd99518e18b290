//! Hours of a node on which everything goes wrong at random: calls fail, drag on, hang or take effect unsaid, events get
//! lost, containers and sandboxes die, manifests change, daemons end. While it lasts no pod runs a container twice nor starts
//! one after its end; once it is over every wanted pod runs, and nothing else is left.
//!
//! `HOSTLET_SIMULATIONS` and `HOSTLET_SIMULATED_MINUTES` make it longer, `HOSTLET_SIMULATION_SEED` starts at a given seed. The
//! seed decides what goes wrong; the jitter of pauses is not bound to it.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};
use tokio::time::{Instant, sleep};

use super::testing::{Node, Seen, pod_with};
use crate::cri::Operation;
use crate::cri::fake::{EventMode, Failure, Fault, OnTerm, Rule, Script};
use crate::pod::{is_static, pod_ref};

const PODS: usize = 6;
const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);

/// Calls that are made to fail.
const OPERATIONS: [Operation; 13] = [
    Operation::RunSandbox,
    Operation::StopSandbox,
    Operation::RemoveSandbox,
    Operation::SandboxStatus,
    Operation::ListSandboxes,
    Operation::CreateContainer,
    Operation::StartContainer,
    Operation::StopContainer,
    Operation::RemoveContainer,
    Operation::ContainerStatus,
    Operation::ListContainers,
    Operation::ContainerEvents,
    Operation::ImageStatus,
];

/// Containers by how they behave: `deaf` ignores being asked to end, `slow` takes its time, `crash` fails again and again.
const NAMES: [&str; 4] = ["calm", "deaf", "slow", "crash"];

struct Simulation {
    node: Node,
    random: StdRng,
    wanted: BTreeMap<usize, Arc<Pod>>,
    versions: usize,
    /// When pods ceased to be wanted, by UID.
    ended: HashMap<String, Instant>,
}

impl Simulation {
    fn new(seed: u64) -> Self {
        let node = Node::with(4, |services| Arc::new(services));
        let asked = |after| OnTerm::Exits { after, code: 0 };
        node.runtime.script("deaf", Script::forever().on_term(OnTerm::Ignores));
        node.runtime.script("slow", Script::forever().on_term(asked(5 * SECOND)));
        node.runtime.script("crash", Script::exits(20 * SECOND, 1));
        node.runtime.script("job", Script::exits(40 * SECOND, 0));
        let random = StdRng::seed_from_u64(seed);
        Self { node, random, wanted: BTreeMap::new(), versions: 0, ended: HashMap::new() }
    }

    fn tell(&mut self) {
        self.node.want(self.wanted.values().cloned());
    }

    /// Puts a new version of a pod in place of the one there is, if any.
    fn edit(&mut self, slot: usize) {
        self.versions += 1;
        let (name, uid) = (format!("pod{slot}"), format!("u{slot}-{}", self.versions));
        let pod = if self.random.random_bool(0.2) {
            pod_with(&name, &uid, "OnFailure", &["job"])
        } else {
            let count = self.random.random_range(1..=3);
            let names: Vec<&str> = NAMES.choose_multiple(&mut self.random, count).copied().collect();
            pod_with(&name, &uid, "Always", &names)
        };
        assert!(is_static(&pod));
        let old = self.wanted.insert(slot, pod);
        self.end(old);
        self.tell();
    }

    fn end(&mut self, pod: Option<Arc<Pod>>) {
        if let Some(pod) = pod {
            self.ended.insert(pod_ref(&pod).uid.to_string(), Instant::now());
        }
    }

    fn duration(&mut self, longest: Duration) -> Duration {
        longest.mul_f64(self.random.random::<f64>())
    }

    fn fault(&mut self) -> Fault {
        match self.random.random_range(0..6) {
            0 => Fault::fail("boom"),
            1 => Fault::Fail { after: self.duration(2 * MINUTE), failure: Failure::TimedOut },
            2 => Fault::Fail { after: Duration::ZERO, failure: Failure::Unreachable },
            3 => Fault::Delay(self.duration(MINUTE)),
            4 => Fault::LateSuccess {
                answer_after: self.duration(30 * SECOND),
                failure: Failure::TimedOut,
                lands_after: self.duration(MINUTE),
            },
            _ => Fault::Hang,
        }
    }

    /// Something happens.
    async fn step(&mut self) {
        let slot = self.random.random_range(0..PODS);
        match self.random.random_range(0..100) {
            0..15 => self.edit(slot),
            15..20 => {
                let old = self.wanted.remove(&slot);
                self.end(old);
                self.tell();
            }
            20..60 => {
                let operation = *OPERATIONS.choose(&mut self.random).unwrap();
                let times = self.random.random_range(1..4);
                let fault = self.fault();
                self.node.runtime.faults().add(Rule::new(operation, fault).times(times));
            }
            60..70 => self.node.runtime.faults().release(),
            70..76 => {
                self.node.stop().await;
                let pause = self.duration(30 * SECOND);
                sleep(pause).await;
                if self.random.random_bool(0.3) {
                    self.edit(slot);
                }
                self.node.boot();
            }
            76..84 => {
                if let Some(container) = self.running().choose(&mut self.random) {
                    self.node.runtime.exit_container(&container.id.as_str().into(), 137);
                }
            }
            84..90 => {
                let sandboxes = self.node.runtime.wire_sandboxes();
                if let Some(sandbox) = sandboxes.choose(&mut self.random) {
                    self.node.runtime.kill_sandbox(&sandbox.id.as_str().into());
                }
            }
            90..93 => {
                let sandboxes = self.node.runtime.wire_sandboxes();
                if let Some(sandbox) = sandboxes.choose(&mut self.random) {
                    self.node.runtime.remove_behind_back(&sandbox.id);
                }
            }
            93..98 => {
                use EventMode::{Duplicated, Lost, Objects, Pods, Unimplemented};
                let modes = [Pods, Objects, Duplicated, Lost, Unimplemented];
                self.node.runtime.set_event_mode(*modes.choose(&mut self.random).unwrap());
            }
            _ => self.node.runtime.hang_up_events(),
        }
    }

    /// What must hold at every moment.
    fn check_now(&self) {
        let mut running = HashMap::new();
        for container in self.running() {
            let key = (container.uid.clone(), container.name.clone());
            if let Some(other) = running.insert(key, container.id.clone()) {
                panic!("{container:?} runs twice, also as {other}\n{}", self.node.picture());
            }
        }
    }

    fn running(&self) -> Vec<Seen> {
        self.node.containers().into_iter().filter(|c| c.runs).collect()
    }

    /// What must hold of the whole history.
    fn check_history(&self) {
        for (uid, ended) in &self.ended {
            let starts = self.node.calls_of(uid, Operation::StartContainer);
            let sandboxes = self.node.calls_of(uid, Operation::RunSandbox);
            for call in starts.iter().chain(&sandboxes) {
                let late = call.at.saturating_duration_since(*ended);
                assert!(late.is_zero(), "{uid}: {} made {late:?} after its end", call.operation);
            }
        }
    }

    /// Whether everything is as it should be when nothing fails any more; otherwise what is not.
    fn unsettled(&self) -> Option<String> {
        let node = &self.node;
        let uids: Vec<String> = self.wanted.values().map(|pod| pod_ref(pod).uid.to_string()).collect();
        let containers = node.containers();
        if let Some(left) = containers.iter().find(|c| !uids.contains(&c.uid)) {
            return Some(format!("{left:?} is left"));
        }
        if let Some(left) = node.sandboxes().iter().find(|(uid, ..)| !uids.contains(uid)) {
            return Some(format!("sandbox {left:?} is left"));
        }
        let is_wanted = |directory: &String| {
            uids.iter().any(|uid| directory == uid || directory.ends_with(&format!("_{uid}")))
        };
        if let Some(left) = node.directories().iter().find(|directory| !is_wanted(directory)) {
            return Some(format!("directory {left} is left"));
        }
        self.wanted.values().find_map(|pod| self.unsettled_pod(pod))
    }

    fn unsettled_pod(&self, pod: &Pod) -> Option<String> {
        let uid = pod_ref(pod).uid.to_string();
        let spec = pod.spec.as_ref().unwrap();
        let mut names: Vec<String> = spec.containers.iter().map(|c| c.name.clone()).collect();
        names.sort();
        let is_job = names == ["job"];
        if is_job {
            names.clear();
        }
        let running: Vec<String> = self.node.running(&uid).into_iter().map(|(name, _)| name).collect();
        let ready =
            self.node.sandboxes().into_iter().filter(|(owner, _, ready)| *owner == uid && *ready).count();
        let phase = self.node.phase(&uid);
        let expected = if is_job { (0, "Succeeded") } else { (1, "Running") };
        (running != names || (ready, phase.as_deref()) != (expected.0, Some(expected.1)))
            .then(|| format!("{uid} should run {names:?}: {running:?} in {ready} ready sandboxes, {phase:?}"))
    }

    async fn run(&mut self, length: Duration) {
        let end = Instant::now() + length;
        for slot in 0..PODS {
            self.edit(slot);
        }
        while Instant::now() < end {
            self.step().await;
            let pause = self.duration(10 * SECOND);
            for _ in 0..4 {
                sleep(pause / 4).await;
                self.check_now();
            }
        }
        // From now on nothing fails any more.
        self.node.runtime.faults().clear();
        self.node.runtime.faults().release();
        self.node.runtime.script("crash", Script::forever());
        // The crashing containers that run still have their last crash before them.
        sleep(MINUTE).await;
        let deadline = Instant::now() + 20 * MINUTE;
        while let Some(problem) = self.unsettled() {
            assert!(Instant::now() < deadline, "{problem}\n{}", self.node.picture());
            sleep(SECOND).await;
            self.check_now();
        }
        // And it stays so; of the dead one instance a container is kept.
        let running = self.running();
        sleep(10 * MINUTE).await;
        assert_eq!(self.running(), running);
        let dead = self.node.containers().into_iter().filter(|c| !c.runs);
        let mut dead: Vec<_> = dead.map(|c| (c.uid, c.name)).collect();
        let all = dead.len();
        dead.dedup();
        assert_eq!(dead.len(), all, "{}", self.node.picture());
        self.check_history();
    }
}

fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().map_or(default, |text| text.parse().unwrap())
}

#[tokio::test(start_paused = true)]
async fn whatever_goes_wrong_the_node_ends_as_it_is_wanted() {
    let first = setting("HOSTLET_SIMULATION_SEED", 1);
    let length = Duration::from_secs(60 * setting("HOSTLET_SIMULATED_MINUTES", 20));
    for seed in first..first + setting("HOSTLET_SIMULATIONS", 4) {
        println!("HOSTLET_SIMULATION_SEED={seed}");
        Simulation::new(seed).run(length).await;
    }
}
