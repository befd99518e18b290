//! The script of a storm, generated only from a seed, so that it can be logged and replayed.

use std::time::Duration;

use hostlet_integration::storm::{Kind, Present, StormPod};
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};

/// Pods that remain unchanged, and that no pressure evicts.
const CALM: [Kind; 4] = [Kind::Plain, Kind::Trio, Kind::HostNetwork, Kind::Deaf];
/// The most pods besides them.
const RESTLESS: usize = 10;

/// A change on the API server.
#[derive(Clone, Debug)]
pub(super) enum Change {
    Create(StormPod),
    Delete(StormPod),
}

/// What happens to the API server and the agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    None,
    /// SIGKILL of the API server, which starts again.
    KillServer,
    /// The same, and SIGKILL of the agent, which starts first.
    KillServerAndAgent,
    /// SIGSTOP of the API server, which continues later.
    FreezeServer,
    /// The same, and SIGKILL of the agent, which starts while the API server does not respond.
    FreezeServerAndKillAgent,
    /// No route to the API server.
    CutOff,
    /// The same, and SIGKILL of the agent, which starts without the API server.
    CutOffAndKillAgent,
    /// SIGKILL of the agent.
    KillAgent,
    /// The agent starts with a threshold above the available memory, so that it evicts pods, and later without it.
    Pressure,
}

/// Faults and how frequent they are.
const FAULTS: [(Fault, u32); 9] = [
    (Fault::None, 1),
    (Fault::KillServer, 2),
    (Fault::KillServerAndAgent, 1),
    (Fault::FreezeServer, 4),
    (Fault::FreezeServerAndKillAgent, 2),
    (Fault::CutOff, 5),
    (Fault::CutOffAndKillAgent, 4),
    (Fault::KillAgent, 4),
    (Fault::Pressure, 2),
];

/// One round.
#[derive(Clone, Debug)]
pub(super) struct Round {
    /// The changes at its beginning.
    pub(super) changes: Vec<Change>,
    /// Then.
    pub(super) work: Duration,
    /// Then.
    pub(super) fault: Fault,
    /// How long it lasts.
    pub(super) outage: Duration,
}

/// Generates storms.
pub(super) struct Script {
    rng: StdRng,
    /// The existing pods.
    pub(super) present: Present,
    /// The number of pods created besides the calm ones.
    created: usize,
}

impl Script {
    /// The storm of a seed.
    pub(super) fn new(seed: u64) -> Self {
        let calm = Self::calm().into_iter().map(|pod| (pod.name.clone(), pod)).collect();
        Self { rng: StdRng::seed_from_u64(seed), present: calm, created: 0 }
    }

    /// The pods that run from the beginning to the end.
    pub(super) fn calm() -> Vec<StormPod> {
        let pods = CALM.iter().enumerate();
        pods.map(|(index, &kind)| StormPod { name: format!("calm-{index}"), kind, version: 0 }).collect()
    }

    /// The next round.
    pub(super) fn round(&mut self) -> Round {
        let changes = (0..self.rng.random_range(1..=3)).map(|_| self.change()).collect();
        let work = self.millis(0..600);
        let fault = FAULTS.choose_weighted(&mut self.rng, |(_, weight)| *weight);
        let fault = fault.map_or(Fault::None, |(fault, _)| *fault);
        let outage = match fault {
            Fault::None | Fault::KillAgent => 0..200,
            // Pods are evicted one by one.
            Fault::Pressure => 3000..15_000,
            Fault::KillServer
            | Fault::KillServerAndAgent
            | Fault::FreezeServer
            | Fault::FreezeServerAndKillAgent
            | Fault::CutOff
            | Fault::CutOffAndKillAgent => 100..4000,
        };
        // Sometimes so long that the lease of the node expires, and its pods are said to be not ready.
        let is_long = fault != Fault::None && self.rng.random_ratio(1, 20);
        let outage = if is_long { self.millis(25_000..40_000) } else { self.millis(outage) };
        Round { changes, work, fault, outage }
    }

    fn change(&mut self) -> Change {
        let restless: Vec<StormPod> =
            self.present.values().filter(|pod| !pod.name.starts_with("calm")).cloned().collect();
        let is_full = restless.len() >= RESTLESS || self.rng.random_ratio(1, 3);
        if let Some(pod) = restless.choose(&mut self.rng).filter(|_| is_full) {
            self.present.remove(&pod.name);
            return Change::Delete(pod.clone());
        }
        let kind = Kind::of(self.created);
        let pod = StormPod { name: format!("restless-{}", self.created), kind, version: 0 };
        self.created += 1;
        self.present.insert(pod.name.clone(), pod.clone());
        Change::Create(pod)
    }

    fn millis(&mut self, range: std::ops::Range<u64>) -> Duration {
        Duration::from_millis(self.rng.random_range(range))
    }
}
