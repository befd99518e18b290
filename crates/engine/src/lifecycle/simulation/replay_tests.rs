//! Runs many seeds in parallel, or replays one.
//!
//! `HOSTLET_SIMULATION_SEED` selects a single seed, `HOSTLET_SIMULATION_STEPS` the total number of steps.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use super::trace::Trace;
use super::world::World;

/// Steps before settling.
const STEPS: usize = 2500;
/// Short by default; `integration/test.sh` uses ten times as many.
const ALL_STEPS: u64 = 10_000;

/// Seeds, one per line, with what they found.
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
fn the_node_reaches_the_desired_state_after_any_faults() {
    let (seeds, next) = (seeds(), AtomicUsize::new(0));
    // A single seed keeps the whole trace.
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
fn a_seed_is_deterministic() {
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
