//! The script of a storm, generated only from a seed, so that it can be logged and replayed.

use std::time::Duration;

use hostlet_integration::storm::{Kind, Present, StormPod};
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};

/// Pods that remain unchanged.
const CALM: [Kind; 6] = [Kind::Plain, Kind::Trio, Kind::HostNetwork, Kind::Deaf, Kind::Plain, Kind::Trio];
/// Pods that are added, changed and removed.
const RESTLESS: usize = 14;

/// A change of a manifest.
#[derive(Clone, Debug)]
pub(super) enum Change {
    /// It is written: a new one, a new version, or an earlier one again.
    Write(StormPod),
    /// It is removed.
    Remove(StormPod),
}

/// What happens to the daemon, the runtime and the disks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    None,
    /// SIGKILL of hostlet.
    KillDaemon,
    /// SIGKILL of containerd.
    KillRuntime,
    /// Both, hostlet first.
    KillBoth,
    /// Both, containerd first.
    KillBothRuntimeFirst,
    /// SIGSTOP of containerd, which continues later.
    FreezeRuntime,
    /// SIGSTOP, then SIGKILL of containerd.
    FreezeAndKillRuntime,
    /// A disk has no byte free.
    FillDisk(Which),
    /// The same, and SIGKILL of hostlet, which starts while the disk is full.
    FillDiskAndKillDaemon(Which),
    /// Whoever writes to a disk waits.
    FreezeDisk(Which),
    /// The same, and SIGKILL of hostlet, which takes effect when the disk continues.
    FreezeDiskAndKillDaemon(Which),
    /// The daemon's disk becomes read-only. Then it is mounted again, as after a reboot, and the daemon is started.
    BreakDisk,
}

/// A disk of a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Which {
    /// The one with all files.
    All,
    /// The one with the daemon's records only.
    Own,
}

/// Faults and how frequent they are.
pub(super) type Faults = &'static [(Fault, u32)];

/// Kills and freezes of processes.
pub(super) const OF_PROCESSES: Faults = &[
    (Fault::None, 2),
    (Fault::KillDaemon, 6),
    (Fault::KillRuntime, 5),
    (Fault::KillBoth, 2),
    (Fault::KillBothRuntimeFirst, 2),
    (Fault::FreezeRuntime, 2),
    (Fault::FreezeAndKillRuntime, 1),
];

/// Faults of disks, and some kills beside them.
pub(super) const OF_DISKS: Faults = &[
    (Fault::None, 2),
    (Fault::KillDaemon, 2),
    (Fault::KillRuntime, 1),
    (Fault::FillDisk(Which::All), 3),
    (Fault::FillDisk(Which::Own), 3),
    (Fault::FillDiskAndKillDaemon(Which::All), 2),
    (Fault::FillDiskAndKillDaemon(Which::Own), 2),
    (Fault::FreezeDisk(Which::All), 2),
    (Fault::FreezeDisk(Which::Own), 2),
    (Fault::FreezeDiskAndKillDaemon(Which::All), 1),
    (Fault::FreezeDiskAndKillDaemon(Which::Own), 1),
    (Fault::BreakDisk, 3),
];

/// The `runtimeRequestTimeout` of a daemon that is started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Patience {
    /// The default.
    Ordinary,
    /// So short that calls time out and take effect later.
    Short,
}

/// One round.
#[derive(Clone, Debug)]
pub(super) struct Round {
    /// The changes at its beginning.
    pub(super) changes: Vec<Change>,
    /// Then.
    pub(super) work: Duration,
    /// Then.
    pub(super) fault: Fault,
    /// Time until what was killed or frozen is started or continued.
    pub(super) outage: Duration,
    /// The timeout of the daemon, if it is started.
    pub(super) patience: Patience,
}

/// Generates storms.
pub(super) struct Script {
    rng: StdRng,
    faults: Faults,
    /// The existing pods.
    pub(super) present: Present,
    /// The last version of each restless pod.
    last: Vec<StormPod>,
}

impl Script {
    /// The storm of a seed, with these faults.
    pub(super) fn new(seed: u64, faults: Faults) -> Self {
        let pod = |name: String, kind| StormPod { name, kind, version: 0 };
        let last = (0..RESTLESS).map(|index| pod(format!("restless-{index}"), Kind::of(index))).collect();
        let mut script = Self { rng: StdRng::seed_from_u64(seed), faults, present: Present::new(), last };
        for pod in Self::calm() {
            script.present.insert(pod.name.clone(), pod);
        }
        script
    }

    /// The pods that run from the beginning to the end.
    pub(super) fn calm() -> Vec<StormPod> {
        let pods = CALM.iter().enumerate();
        pods.map(|(index, &kind)| StormPod { name: format!("calm-{index}"), kind, version: 0 }).collect()
    }

    /// The next round.
    pub(super) fn round(&mut self) -> Round {
        let changes = (0..self.rng.random_range(1..=2)).map(|_| self.change()).collect();
        // Mostly in the middle of the work that the changes cause; sometimes after it.
        let work = if self.rng.random_ratio(1, 10) { 1000..3000 } else { 0..400 };
        let work = self.millis(work);
        let fault = self.fault();
        let outage = match fault {
            Fault::None
            | Fault::KillDaemon
            | Fault::KillRuntime
            | Fault::KillBoth
            | Fault::KillBothRuntimeFirst => 0..150,
            Fault::FreezeRuntime
            | Fault::FreezeAndKillRuntime
            | Fault::FreezeDisk(_)
            | Fault::FreezeDiskAndKillDaemon(_) => 100..1500,
            Fault::FillDisk(_) | Fault::FillDiskAndKillDaemon(_) | Fault::BreakDisk => 100..3000,
        };
        let outage = self.millis(outage);
        let patience = if self.rng.random_ratio(1, 3) { Patience::Short } else { Patience::Ordinary };
        Round { changes, work, fault, outage, patience }
    }

    fn change(&mut self) -> Change {
        let index = self.rng.random_range(0..self.last.len());
        let pod = &mut self.last[index];
        let is_present = self.present.contains_key(&pod.name);
        if is_present && self.rng.random_ratio(1, 2) {
            self.present.remove(&pod.name);
            return Change::Remove(pod.clone());
        }
        // A manifest that is added again unchanged is a pod with the same UID.
        if is_present || self.rng.random_ratio(3, 4) {
            pod.version += 1;
        }
        self.present.insert(pod.name.clone(), pod.clone());
        Change::Write(pod.clone())
    }

    fn fault(&mut self) -> Fault {
        let chosen = self.faults.choose_weighted(&mut self.rng, |(_, weight)| *weight);
        chosen.map_or(Fault::None, |(fault, _)| *fault)
    }

    fn millis(&mut self, range: std::ops::Range<u64>) -> Duration {
        Duration::from_millis(self.rng.random_range(range))
    }
}
