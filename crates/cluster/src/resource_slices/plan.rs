//! Observed slices × desired devices → writes. Pure.
//!
//! The rules of a pool (`ResourcePool` in `resource.k8s.io/v1`): consumers use only the slices of the highest generation, and only if
//! they are as many as each of them says. So a change of one slice is one write at the same generation, which consumers see at
//! once; a change of several is a new generation of all slices, which is incomplete, and so unused, until its last write.

use std::collections::{BTreeMap, HashSet};

use super::assign::{Target, assign};
use super::encode::{Digest, ObservedSlice};

/// What the slices of a driver become.
#[derive(Clone, Copy, Debug)]
pub(super) struct Desired<'d> {
    /// Keys of the devices' names.
    pub(super) keys: &'d [u64],
    /// Maximum number of devices in a slice.
    pub(super) most: usize,
    /// UID of the Node, which owns the slices.
    pub(super) owner: &'d str,
}

/// What the API server stored for what was sent, where that differs: a field that it does not know or whose feature is off.
pub(super) type StoredForms = BTreeMap<Digest, Digest>;

/// The writes that make the slices what they should be, and the slices they are about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Plan {
    /// `pool.generation` of all slices.
    pub(super) generation: i64,
    /// The slices to be; their number is `pool.resourceSliceCount`.
    pub(super) targets: Vec<Target>,
    /// Content of the targets.
    pub(super) digests: Vec<Digest>,
    /// The writes, in order.
    pub(super) writes: Vec<Write>,
}

/// A write. Targets and observed slices are indices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Write {
    /// Creates a slice for this target.
    Create { target: usize },
    /// Makes an observed slice the one of its target.
    Update { base: usize, target: usize },
    /// Changes only the owner of an observed slice.
    SetOwner { base: usize },
    /// Deletes an observed slice.
    Delete { base: usize },
}

/// Plans the writes. `digest` computes the content of a slice with these devices.
pub(super) fn plan(
    observed: &[ObservedSlice],
    desired: Desired<'_>,
    stored: &StoredForms,
    digest: impl Fn(&[usize]) -> Digest,
) -> Plan {
    let targets = assign(desired.keys, observed, desired.most);
    let digests: Vec<Digest> = targets.iter().map(|target| digest(&target.devices)).collect();
    let used: HashSet<usize> = targets.iter().filter_map(|target| target.base).collect();
    let newest = observed.iter().map(|slice| slice.generation).max();
    let pool = PoolState::of(observed, &targets, &used, newest, |target, base| {
        let is = observed[base].digest;
        is == digests[target] || stored.get(&digests[target]) == Some(&is)
    });
    let keeps = pool.keeps_generation();
    let generation = match newest {
        None => 1,
        Some(newest) if keeps => newest,
        Some(newest) => newest.saturating_add(1),
    };
    let write = |target: usize| match targets[target].base {
        Some(base) => Write::Update { base, target },
        None => Write::Create { target },
    };
    let mut writes: Vec<Write> = if keeps {
        // What is missing comes last, so that the pool is incomplete until everything is right.
        pool.wrong.iter().chain(&pool.missing).map(|target| write(*target)).collect()
    } else {
        (0..targets.len()).map(write).collect()
    };
    if keeps {
        let has_other_owner = |base: &usize| observed[*base].owner.as_deref() != Some(desired.owner);
        writes.extend(pool.right.into_iter().filter(has_other_owner).map(|base| Write::SetOwner { base }));
    }
    writes.extend((0..observed.len()).filter(|base| !used.contains(base)).map(|base| Write::Delete { base }));
    Plan { generation, targets, digests, writes }
}

/// The targets by the state of their slices at the newest generation.
#[derive(Debug, Default)]
struct PoolState {
    /// Observed slices that are as they should be.
    right: Vec<usize>,
    /// Targets whose slice has other devices.
    wrong: Vec<usize>,
    /// Targets without a slice of the newest generation.
    missing: Vec<usize>,
    /// Whether slices of the newest generation must be deleted, or count another number of slices.
    is_stale: bool,
}

impl PoolState {
    fn of(
        observed: &[ObservedSlice],
        targets: &[Target],
        used: &HashSet<usize>,
        newest: Option<i64>,
        matches: impl Fn(usize, usize) -> bool,
    ) -> Self {
        let is_newest = |base: usize| Some(observed[base].generation) == newest;
        let count = i64::try_from(targets.len()).unwrap_or(i64::MAX);
        let mut state = Self::default();
        for (index, target) in targets.iter().enumerate() {
            match target.base.filter(|base| is_newest(*base)) {
                None => state.missing.push(index),
                Some(base) => {
                    state.is_stale |= observed[base].count != count;
                    if matches(index, base) { state.right.push(base) } else { state.wrong.push(index) }
                }
            }
        }
        state.is_stale |= (0..observed.len()).any(|base| is_newest(base) && !used.contains(&base));
        state
    }

    /// Whether the writes can stay at the newest generation: nobody can use a wrong pool between them. Either there is at most
    /// one, or the pool is incomplete until the last one.
    fn keeps_generation(&self) -> bool {
        !self.is_stale && (!self.missing.is_empty() || self.wrong.len() <= 1)
    }
}

#[cfg(test)]
#[path = "plan_tests.rs"]
mod tests;
