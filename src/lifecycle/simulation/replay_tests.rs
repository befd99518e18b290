//! Many seeds in parallel, or the one that failed again.
//!
//! `HOSTLET_SIMULATION_SEED` runs that seed alone, `HOSTLET_SIMULATION_STEPS` as many steps in all as it says.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use super::trace::Trace;
use super::world::World;

/// Steps before each calm.
const STEPS: usize = 2500;
/// Short where a person waits; `integration/test.sh` asks for ten times as many.
const ALL_STEPS: u64 = 10_000;

/// One line a seed: the number, and after it what it found.
const FAILED_ONCE: &str = include_str!("failed_seeds.txt");

fn run(seed: u64, steps: usize, keeps_trace: bool) -> Trace {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    runtime.unwrap().block_on(async { World::new(seed, keeps_trace).run(steps).await })
}

fn setting(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().unwrap())
}

fn seeds() -> Vec<u64> {
    if let Some(seed) = setting("HOSTLET_SIMULATION_SEED") {
        return vec![seed];
    }
    let lines = FAILED_ONCE.lines().filter(|line| !line.starts_with('#'));
    let failed_once = lines.map(|line| line.split_whitespace().next().unwrap().parse().unwrap());
    let count = setting("HOSTLET_SIMULATION_STEPS").unwrap_or(ALL_STEPS).div_ceil(STEPS as u64);
    failed_once.chain(1..=count).collect()
}

#[test]
fn whatever_goes_wrong_the_node_ends_as_it_is_wanted() {
    let (seeds, next) = (seeds(), AtomicUsize::new(0));
    // All of it is worth reading when one seed is.
    let keeps_trace = seeds.len() == 1;
    let work = || {
        while let Some(seed) = seeds.get(next.fetch_add(1, Ordering::Relaxed)) {
            run(*seed, STEPS, keeps_trace);
        }
    };
    thread::scope(|scope| {
        let threads = thread::available_parallelism().map_or(1, usize::from);
        (0..threads).for_each(|_| _ = scope.spawn(work));
    });
}

#[test]
fn a_seed_does_the_same_twice() {
    for seed in [2, 3] {
        let (one, other) = (run(seed, 200, true).text(), run(seed, 200, true).text());
        if let Some(at) = (0..one.len().max(other.len())).find(|at| one.get(*at) != other.get(*at)) {
            let around = |lines: &[String]| {
                lines[at.saturating_sub(20)..].iter().take(25).cloned().collect::<Vec<_>>()
            };
            panic!("seed {seed} line {at}\n{:#?}\n{:#?}", around(&one), around(&other));
        }
        assert!(one.len() > 1000);
    }
}
