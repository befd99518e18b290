//! Random steps of the node's owner, the runtime and the environment.

use std::time::Duration;

use hostlet_runtime::cri::Operation;
use hostlet_runtime::cri::fake::{EventMode, Failure, Fault, Restart, Rule};
use rand::Rng;
use rand::seq::IndexedRandom;

use super::super::testing::Seen;
use super::source::Wish;
use super::world::World;

const PODS: usize = 4;
const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);
const DAY: i64 = 86_400;
const TEN_YEARS: i64 = 3652 * DAY;

/// How long some pods may be active, seconds.
const DEADLINE: i64 = DAY;

/// What the clocks of hosts show that have no battery or a wrong one, seconds since the epoch: the epoch, the time of the simulation, the
/// end of 32 bits, and a later century.
const TIMES: [i64; 4] = [60, 1_767_225_600, i32::MAX as i64 - 30, 4_200_000_000];

/// Calls with faults.
const OPERATIONS: [Operation; 14] = [
    Operation::RunSandbox,
    Operation::StopSandbox,
    Operation::RemoveSandbox,
    Operation::SandboxStatus,
    Operation::ListSandboxes,
    Operation::CreateContainer,
    Operation::StartContainer,
    Operation::StopContainer,
    Operation::RemoveContainer,
    Operation::UpdateContainer,
    Operation::ContainerStatus,
    Operation::ListContainers,
    Operation::ContainerEvents,
    Operation::ImageStatus,
];

/// Containers by behavior: `deaf` ignores SIGTERM, `slow` exits late, `crash` fails repeatedly.
/// Init containers and sidecars of pods; many have none.
const INITS: [&[&str]; 6] = [&[], &[], &[], &["setup"], &["proxy", "setup"], &["setup", "proxy", "retry"]];
pub(super) const NAMES: [&str; 4] = ["calm", "deaf", "slow", "crash"];

impl World {
    /// Performs a random step.
    pub(super) async fn step(&mut self) {
        match self.random.random_range(0..1000) {
            0..60 => self.edit_some(1),
            60..70 => self.edit_some(PODS),
            70..90 => self.edit_in_place(),
            90..130 => self.remove(),
            130..150 => self.put_back(),
            150..170 => self.damage(),
            170..180 => self.change_weather(),
            180..500 if self.random.random_bool(self.foulness) => self.fault(),
            500..560 => {
                self.trace.step("hung calls go on".to_owned());
                self.node.runtime.faults().release();
            }
            576..580 => self.reboot().await,
            580..600 => self.end_daemon().await,
            600..640 => {
                let polls = self.random.random_range(0..60);
                self.trace.step(format!("the daemon will end in {polls} polls"));
                self.fuse.light(polls);
            }
            680..760 => self.end_container(),
            760..800 => self.kill_sandbox(),
            800..820 => self.rob(),
            820..860 => self.event_mode(),
            860..880 => {
                self.trace.step("event streams break".to_owned());
                self.node.runtime.hang_up_events();
            }
            880..900 => self.restart_runtime(),
            900..910 => self.set_clock(),
            910..940 => self.resize(),
            940..950 => self.change_liveness(),
            // Only time passes.
            _ => self.trace.step("tick".to_owned()),
        }
    }

    fn slot(&mut self) -> usize {
        self.random.random_range(0..PODS)
    }

    /// Changes several pods at once.
    fn edit_some(&mut self, most: usize) {
        for _ in 0..self.random.random_range(1..=most) {
            let slot = self.slot();
            self.versions += 1;
            let (policy, containers) = if self.random.random_bool(0.2) {
                ("OnFailure", vec!["job"])
            } else {
                let count = self.random.random_range(1..=3);
                ("Always", NAMES.choose_multiple(&mut self.random, count).copied().collect())
            };
            let uid = format!("u{slot}-{}", self.versions);
            let name = format!("pod{slot}");
            let inits = INITS.choose(&mut self.random).map(|inits| inits.to_vec()).unwrap_or_default();
            let deadline = self.random.random_bool(0.3).then_some(DEADLINE);
            self.put(slot, Wish { name, uid, policy, containers, inits, version: 0, memory: 64, deadline });
        }
        self.set_desired();
    }

    /// Changes the containers of a pod but not its UID.
    fn edit_in_place(&mut self) {
        let slot = self.slot();
        let Some(wish) = self.wishes.get(&slot).cloned() else { return };
        self.put(slot, Wish { version: wish.version + 1, ..wish });
        self.set_desired();
    }

    /// Changes the memory of a pod.
    fn resize(&mut self) {
        let slot = self.slot();
        let Some(wish) = self.wishes.get(&slot).cloned() else { return };
        let memory = 16 * self.random.random_range(1..=8);
        self.put(slot, Wish { memory, ..wish });
        self.set_desired();
    }

    fn put(&mut self, slot: usize, wish: Wish) {
        self.trace.step(format!("slot {slot} is {wish:?}"));
        self.source.put(slot, &wish);
        self.wishes.insert(slot, wish);
    }

    fn remove(&mut self) {
        let slot = self.slot();
        self.trace.step(format!("slot {slot} is empty"));
        self.source.remove(slot);
        self.set_desired();
    }

    /// Restores the last pod of a slot with the same UID.
    fn put_back(&mut self) {
        let slot = self.slot();
        let Some(wish) = self.wishes.get(&slot).cloned() else { return };
        self.put(slot, wish);
        self.set_desired();
    }

    fn damage(&mut self) {
        let slot = self.slot();
        if self.source.damage(slot) {
            self.trace.step(format!("slot {slot} is damaged"));
            self.set_desired();
        }
    }

    /// Changes the fault rate: with too many faults little else happens.
    fn change_weather(&mut self) {
        self.foulness = *[0.0, 0.02, 0.1, 0.1, 1.0].choose(&mut self.random).unwrap();
        self.trace.step(format!("the foulness is {}", self.foulness));
        self.node.runtime.faults().clear();
        self.node.runtime.faults().release();
    }

    fn fault(&mut self) {
        let operation = *OPERATIONS.choose(&mut self.random).unwrap();
        let times = self.random.random_range(1..4);
        let fault = match self.random.random_range(0..6) {
            0 => Fault::fail("boom"),
            1 => Fault::Fail { after: self.duration(2 * MINUTE), failure: Failure::TimedOut },
            2 => Fault::Fail { after: Duration::ZERO, failure: Failure::Unreachable },
            3 => Fault::Delay(self.duration(MINUTE)),
            // A runtime updates a container one after the other: none takes effect after a later one.
            4 if operation != Operation::UpdateContainer => Fault::LateSuccess {
                answer_after: self.duration(30 * SECOND),
                failure: Failure::TimedOut,
                lands_after: self.duration(MINUTE),
            },
            _ => Fault::Hang,
        };
        self.trace.step(format!("{times} {operation} will meet {fault:?}"));
        self.node.runtime.faults().add(Rule::new(operation, fault).times(times));
    }

    /// The programs with a liveness probe hang, or work again.
    fn change_liveness(&mut self) {
        let is_alive = !self.is_alive;
        self.trace.step(format!("liveness probes succeed: {is_alive}"));
        self.set_alive(is_alive);
    }

    async fn end_daemon(&mut self) {
        let pause = self.duration(5 * SECOND);
        self.trace.step(format!("the daemon ends for {pause:?}"));
        if self.random.random_bool(0.5) {
            // A graceful shutdown writes everything.
            self.node.sync_store();
        }
        self.node.stop().await;
        if self.random.random_bool(0.3) {
            self.edit_some(2);
        }
        if self.random.random_bool(0.3) {
            self.set_clock();
        }
        self.restart_daemon(pause).await;
    }

    /// Boots the host, whose clock may have no battery. Pods with a deadline are replaced by such without: over a boot, only the wall
    /// clock can say how long they have been active.
    async fn reboot(&mut self) {
        self.trace.step("the host boots".to_owned());
        self.node.sync_store();
        self.node.stop().await;
        for (slot, wish) in self.wishes.clone() {
            if wish.deadline.is_some() {
                self.versions += 1;
                let uid = format!("u{slot}-{}", self.versions);
                self.put(slot, Wish { deadline: None, uid, ..wish });
            }
        }
        self.set_desired();
        self.look();
        self.checker.disturb_all();
        self.node.reboot();
        if self.random.random_bool(0.5) {
            self.set_clock_to(TIMES[0]);
        }
        self.restart_daemon(5 * SECOND).await;
    }

    fn running(&self) -> Vec<Seen> {
        self.node.containers().into_iter().filter(|c| c.runs).collect()
    }

    fn end_container(&mut self) {
        if let Some(container) = self.running().choose(&mut self.random) {
            let code = self.random.random_range(0..2) * 137;
            self.trace.step(format!("{} {} exits with {code}", container.uid, container.name));
            self.node.runtime.exit_container(&container.id.as_str().into(), code);
        }
    }

    /// A random sandbox with its pod.
    fn any_sandbox(&mut self) -> Option<(String, String)> {
        let sandboxes = self.node.runtime.wire_sandboxes();
        let sandbox = sandboxes.choose(&mut self.random)?;
        Some((sandbox.id.clone(), sandbox.metadata.clone().unwrap_or_default().uid))
    }

    fn kill_sandbox(&mut self) {
        if let Some((id, uid)) = self.any_sandbox() {
            self.trace.step(format!("sandbox {id} of {uid} dies"));
            self.checker.disturb(&uid);
            self.node.runtime.kill_sandbox(&id.as_str().into());
        }
    }

    /// Removes a sandbox with its containers externally.
    fn rob(&mut self) {
        if let Some((id, uid)) = self.any_sandbox() {
            self.trace.step(format!("sandbox {id} of {uid} vanishes"));
            self.node.runtime.remove_behind_back(&id);
            self.look();
            self.checker.robbed(&uid);
        }
    }

    fn event_mode(&mut self) {
        use EventMode::{Duplicated, Late, Lost, Objects, Pods, Unimplemented};
        let late = Late(self.duration(20 * SECOND));
        let modes = [Pods, Objects, Duplicated, late, Lost, Unimplemented];
        let mode = *modes.choose(&mut self.random).unwrap();
        self.trace.step(format!("events are {mode:?}"));
        self.node.runtime.set_event_mode(mode);
    }

    fn restart_runtime(&mut self) {
        let restart = Restart {
            down: self.duration(10 * SECOND),
            recovering: self.duration(2 * SECOND),
            takes_pods_along: self.random.random_bool(0.2),
        };
        self.trace.step(format!("{restart:?}"));
        if restart.takes_pods_along {
            self.checker.disturb_all();
        }
        self.node.runtime.restart(restart);
    }

    fn set_clock(&mut self) {
        let now = self.node.now().as_second();
        let by = [TEN_YEARS, -TEN_YEARS, DAY, -DAY, 3600, -3600, 5, -5].map(|step| now + step);
        let to = if self.random.random_bool(0.5) { &by[..] } else { &TIMES };
        let to = *to.choose(&mut self.random).unwrap();
        self.set_clock_to(to.clamp(TIMES[0], TIMES[3]));
    }

    /// What is stored of a pod tells how long it has been active. With nothing stored, only the wall clock does.
    fn set_clock_to(&mut self, second: i64) {
        let step = second - self.node.now().as_second();
        self.trace.step(format!("the clock is set by {step} s"));
        self.node.sync_store();
        self.look();
        self.checker.clock_set();
        self.node.set_clock(step);
    }
}
