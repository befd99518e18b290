//! One simulation: a node, its desired pods, and the run from the first step until it settles.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use hostlet_pod::pod_uid;
use hostlet_pod::{AdmittedPod, ContainerKind};
use hostlet_runtime::cri::ExecOutput;
use hostlet_runtime::cri::fake::{EventMode, Exec, OnTerm, Run, Script, What};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use tokio::time::{Instant, sleep};

use super::super::testing::Node;
use super::checker::Checker;
use super::fuse::{Fuse, Fused};
use super::source::{ALIVE, Source, Wish};
use super::trace::Trace;
use crate::source::SourceState;

const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);

/// Parallel starts at the gate.
const BOUND: usize = 2;

pub(super) struct World {
    pub(super) seed: u64,
    pub(super) random: StdRng,
    pub(super) node: Node,
    pub(super) fuse: Fuse,
    pub(super) source: Source,
    /// The last pod of each slot, present or not.
    pub(super) wishes: BTreeMap<usize, Wish>,
    /// The desired pods last sent to the daemon, by UID.
    pub(super) wanted: BTreeMap<String, Arc<AdmittedPod>>,
    pub(super) versions: usize,
    /// Probability of faults.
    pub(super) foulness: f64,
    /// Whether liveness probes succeed.
    pub(super) is_alive: bool,
    pub(super) checker: Checker,
    pub(super) trace: Trace,
    steps: usize,
}

impl World {
    pub(super) fn new(seed: u64, keeps_trace: bool) -> Self {
        let fuse = Fuse::default();
        let fused = fuse.clone();
        let node = Node::seeded(seed, BOUND, move |context| Arc::new(Fused { context, fuse: fused.clone() }));
        node.runtime.take_turns();
        let exits_after = |after| OnTerm::Exits { after, code: 0 };
        node.runtime.script("deaf", Script::forever().on_term(OnTerm::Ignores));
        node.runtime.script("slow", Script::forever().on_term(exits_after(5 * SECOND)));
        node.runtime.script("crash", Script::exits(SECOND, 1));
        node.runtime.script("job", Script::exits(40 * SECOND, 0));
        node.runtime.script("setup", Script::exits(2 * SECOND, 0));
        // Succeeds only the second time.
        let retry = [1, 0].map(|code| Run::Exits { after: SECOND, code });
        node.runtime.script("retry", Script::runs(retry));
        // Manifests are the slowest part.
        let source = if seed.is_multiple_of(4) { Source::directory(node.root()) } else { Source::value() };
        let mut checker = Checker::new(BOUND);
        checker.booted(&[], Instant::now());
        Self {
            seed,
            random: StdRng::seed_from_u64(seed),
            node,
            fuse,
            source,
            wishes: BTreeMap::new(),
            wanted: BTreeMap::new(),
            versions: 0,
            foulness: 0.1,
            is_alive: true,
            checker,
            trace: Trace::new(keeps_trace),
            steps: 0,
        }
    }

    /// Runs this many steps, then lets the node settle.
    pub(super) async fn run(mut self, steps: usize) -> Trace {
        while self.steps < steps {
            self.steps += 1;
            self.step().await;
            let pause = self.pause();
            self.pass(pause).await;
        }
        self.settle().await;
        let history = self.node.runtime.history_after(0);
        let starts = history.iter().filter(|h| h.what == What::Started).count();
        assert!(starts > steps / 20, "only {starts} containers were ever started");
        std::mem::replace(&mut self.trace, Trace::new(false))
    }

    /// Sends the current desired pods to the daemon, if it runs.
    pub(super) fn set_desired(&mut self) {
        let (state, wanted) = self.source.read(self.node.now(), &self.wanted);
        let pods = wanted.pods.iter().map(|pod| (pod_uid(pod).to_string(), pod.clone()));
        let new: BTreeMap<String, Arc<AdmittedPod>> = pods.collect();
        for (uid, pod) in &self.wanted {
            match new.get(uid) {
                None => self.checker.unwanted(uid),
                Some(now) if !Arc::ptr_eq(pod, now) => self.checker.disturb(uid),
                Some(_) => {}
            }
        }
        new.values().for_each(|pod| self.checker.wanted(pod));
        self.wanted = new;
        self.node.set_manifests(state);
    }

    /// Sets whether liveness probes succeed.
    pub(super) fn set_alive(&mut self, is_alive: bool) {
        let output = ExecOutput { exit_code: i32::from(!is_alive), ..ExecOutput::default() };
        self.node.runtime.script_exec(&[ALIVE], Exec { output, ..Exec::default() });
        // What has happened until now is judged by what was true.
        self.look();
        self.is_alive = is_alive;
        self.checker.set_alive(is_alive);
    }

    /// Sorted names of the containers that run in a desired pod: its sidecars and main containers.
    pub(super) fn containers_of(&self, uid: &str) -> Vec<String> {
        let lasting = self.wanted[uid].containers().filter(|container| container.kind != ContainerKind::Init);
        let mut names: Vec<String> = lasting.map(|container| container.spec.name.clone()).collect();
        names.sort();
        names
    }

    pub(super) fn duration(&mut self, longest: Duration) -> Duration {
        Duration::from_millis((longest.as_secs_f64() * 1000.0 * self.random.random::<f64>()) as u64)
    }

    /// Mostly short, so that steps overlap; sometimes long enough for back-offs to expire.
    fn pause(&mut self) -> Duration {
        let longest = match self.random.random_range(0..1000) {
            0..1 => 2 * MINUTE,
            1..20 => 10 * SECOND,
            20..200 => 2 * SECOND,
            _ => SECOND / 5,
        };
        self.duration(longest)
    }

    /// Lets time pass; a daemon whose fuse blows is replaced.
    pub(super) async fn pass(&mut self, time: Duration) {
        let end = Instant::now() + time;
        loop {
            let blown = self.fuse.clone();
            tokio::select! {
                biased;
                () = blown.blown() => {
                    self.trace.step("the daemon ends at an await".to_owned());
                    self.restart_daemon(Duration::ZERO).await;
                }
                // Cancel-safe: both arms only wait.
                () = tokio::time::sleep_until(end) => break,
            }
        }
        self.look();
    }

    /// Replaces the daemon after a while.
    pub(super) async fn restart_daemon(&mut self, after: Duration) {
        self.node.stop().await;
        self.fuse.renew();
        sleep(after).await;
        self.look();
        let adopted = self.node.stored_pods();
        self.source.forget(&adopted);
        self.checker.booted(&adopted, self.node.written());
        self.node.set_manifests(SourceState::default());
        self.node.boot();
        if self.random.random_bool(0.5) {
            // The sources take a while to become ready.
            let reading = self.duration(2 * SECOND);
            sleep(reading).await;
        }
        self.set_desired();
    }

    pub(super) fn look(&mut self) {
        if let Err(broken) = self.checker.look(&self.node, &mut self.trace) {
            panic!("step {}: {broken}", self.steps);
        }
        // Sometimes the disk lags: the daemon's last writes are lost if it is killed then.
        if !self.fuse.is_blown() && self.random.random_bool(0.8) {
            self.node.sync_store();
        }
    }

    /// Without further faults, the node reaches the desired state and stays there.
    async fn settle(&mut self) {
        self.trace.step("calm".to_owned());
        if self.fuse.is_blown() || !self.node.is_up() {
            self.restart_daemon(Duration::ZERO).await;
        }
        self.fuse.renew();
        self.node.runtime.faults().clear();
        self.node.runtime.faults().release();
        self.node.runtime.script("crash", Script::forever());
        self.set_alive(true);
        self.node.runtime.set_event_mode(EventMode::Pods);
        for (slot, wish) in self.wishes.clone() {
            self.source.put(slot, &wish);
        }
        self.set_desired();
        // Running crashing containers still have to crash once.
        self.pass(MINUTE).await;
        let deadline = Instant::now() + 20 * MINUTE;
        while let Some(problem) = self.unsettled() {
            assert!(Instant::now() < deadline, "{problem}\n{}", self.node.picture());
            self.pass(5 * SECOND).await;
        }
        // The last actions may still need a relist.
        self.pass(10 * SECOND).await;
        if let Err(problem) = self.stays().await {
            panic!("{problem}\n{}", self.node.picture());
        }
        self.look();
    }
}

impl Drop for World {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!(
                "{}\nseed {} failed in step {}; again:\n    HOSTLET_SIMULATION_SEED={} cargo test -p hostlet-engine lifecycle::simulation",
                self.trace.picture(),
                self.seed,
                self.steps,
                self.seed
            );
        }
    }
}
