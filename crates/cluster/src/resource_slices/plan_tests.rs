//! Plans, and what consumers can see while they are carried out, cut short and resumed.

use std::collections::BTreeSet;

use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::resource_slices::encode::name_key;

const OWNER: &str = "node-uid";

/// A device's name with a value that the test changes.
type Devices = std::collections::BTreeMap<u8, u8>;

/// A slice with the devices themselves.
#[derive(Clone, Debug)]
struct Stored {
    slice: ObservedSlice,
    devices: Devices,
}

/// The slices of an API server.
#[derive(Clone, Debug, Default)]
struct Server {
    slices: Vec<Stored>,
    created: usize,
    writes: usize,
}

fn digest(devices: &Devices) -> Digest {
    let values: Vec<_> = devices.iter().map(|(name, value)| json!({"name": name, "value": value})).collect();
    Digest::of(&values)
}

fn key(name: u8) -> u64 {
    name_key(&name.to_string())
}

impl Server {
    fn plan(&self, desired: &Devices, most: usize, owner: &str) -> (Vec<ObservedSlice>, Plan) {
        let observed: Vec<ObservedSlice> = self.slices.iter().map(|stored| stored.slice.clone()).collect();
        let all: Vec<(u8, u8)> = desired.iter().map(|(name, value)| (*name, *value)).collect();
        let keys: Vec<u64> = all.iter().map(|(name, _)| key(*name)).collect();
        let of = |devices: &[usize]| digest(&devices.iter().map(|index| all[*index]).collect());
        let plan = plan(&observed, Desired { keys: &keys, most, owner }, &StoredForms::new(), of);
        (observed, plan)
    }

    /// Carries out at most this many writes of a plan. Checks what consumers see after each.
    fn apply(&mut self, desired: &Devices, most: usize, owner: &str, limit: usize) -> usize {
        let (observed, plan) = self.plan(desired, most, owner);
        let before = self.visible();
        let all: Vec<(u8, u8)> = desired.iter().map(|(name, value)| (*name, *value)).collect();
        for write in plan.writes.iter().take(limit) {
            let made = |target: usize| {
                let devices: Devices = plan.targets[target].devices.iter().map(|index| all[*index]).collect();
                assert!(devices.len() <= most && !devices.is_empty());
                assert_eq!(digest(&devices), plan.digests[target]);
                devices
            };
            let slice = |name: String, devices: &Devices| ObservedSlice {
                uid: name.clone(),
                name,
                version: String::new(),
                generation: plan.generation,
                count: plan.targets.len() as i64,
                owner: Some(owner.to_owned()),
                digest: digest(devices),
                devices: devices.keys().map(|name| key(*name)).collect(),
            };
            match *write {
                Write::Create { target } => {
                    let devices = made(target);
                    self.created += 1;
                    self.slices
                        .push(Stored { slice: slice(format!("s{}", self.created), &devices), devices });
                }
                Write::Update { base, target } => {
                    let devices = made(target);
                    let stored = self.get(&observed[base].name);
                    *stored = Stored { slice: slice(observed[base].name.clone(), &devices), devices };
                }
                Write::SetOwner { base } => {
                    self.get(&observed[base].name).slice.owner = Some(owner.to_owned())
                }
                Write::Delete { base } => self.slices.retain(|s| s.slice.name != observed[base].name),
            }
            self.writes += 1;
            if let Some(seen) = self.visible() {
                let is_legal = seen == *desired || before.as_ref() == Some(&seen) || desired.is_empty();
                assert!(is_legal, "consumers see {seen:?} between {before:?} and {desired:?}: {plan:?}");
            }
        }
        plan.writes.len().saturating_sub(limit)
    }

    fn get(&mut self, name: &str) -> &mut Stored {
        self.slices.iter_mut().find(|stored| stored.slice.name == name).unwrap()
    }

    /// The devices that the scheduler would use; nothing if the pool is incomplete or has a name twice.
    fn visible(&self) -> Option<Devices> {
        let newest = self.slices.iter().map(|stored| stored.slice.generation).max()?;
        let current: Vec<&Stored> = self.slices.iter().filter(|s| s.slice.generation == newest).collect();
        if current.iter().any(|stored| stored.slice.count != current.len() as i64) {
            return None;
        }
        let all: Devices = current.iter().flat_map(|stored| stored.devices.clone()).collect();
        (all.len() == current.iter().map(|stored| stored.devices.len()).sum::<usize>()).then_some(all)
    }
}

fn devices(names: impl IntoIterator<Item = u8>) -> Devices {
    names.into_iter().map(|name| (name, 0)).collect()
}

/// Applies completely; returns the number of writes.
fn writes(server: &mut Server, desired: &Devices, most: usize) -> usize {
    let before = server.writes;
    assert_eq!(server.apply(desired, most, OWNER, usize::MAX), 0);
    server.writes - before
}

#[test]
fn each_change_takes_as_few_writes_as_possible() {
    let mut server = Server::default();
    let mut all = devices(0..10);
    assert_eq!(writes(&mut server, &all, 4), 3);
    assert_eq!(writes(&mut server, &all, 4), 0);
    all.insert(3, 1);
    assert_eq!(writes(&mut server, &all, 4), 1, "a device changes");
    all.remove(&2);
    assert_eq!(writes(&mut server, &all, 4), 1, "a device is removed");
    all.insert(20, 0);
    assert_eq!(writes(&mut server, &all, 4), 1, "a device is added");
    all.remove(&3);
    all.insert(21, 0);
    assert_eq!(writes(&mut server, &all, 4), 1, "a device replaces another");
    let generation =
        |server: &Server| server.slices.iter().map(|s| s.slice.generation).collect::<BTreeSet<_>>();
    assert_eq!(generation(&server), BTreeSet::from([1]), "none of these needed a new generation");
    all.insert(0, 1);
    all.insert(9, 1);
    assert_eq!(writes(&mut server, &all, 4), 3, "two slices change: all get a new generation");
    assert_eq!(generation(&server), BTreeSet::from([2]));
    all.extend(devices(30..34));
    assert_eq!(writes(&mut server, &all, 4), 4, "a slice more: all count it");
    assert_eq!(writes(&mut server, &devices([]), 4), 4, "all are deleted");
    assert_eq!(writes(&mut server, &devices([]), 4), 0);
}

#[test]
fn obsolete_slices_are_reused() {
    let mut server = Server::default();
    writes(&mut server, &devices(0..8), 4);
    let names = |server: &Server| server.slices.iter().map(|s| s.slice.name.clone()).collect::<Vec<_>>();
    let before = names(&server);
    writes(&mut server, &devices(100..108), 4);
    assert_eq!(names(&server), before);
}

#[test]
fn a_new_owner_is_set_without_a_new_generation() {
    let mut server = Server::default();
    writes(&mut server, &devices(0..8), 4);
    assert_eq!(server.apply(&devices(0..8), 4, "another", usize::MAX), 0);
    assert_eq!(server.writes, 4);
    assert!(
        server.slices.iter().all(|s| s.slice.owner.as_deref() == Some("another") && s.slice.generation == 1)
    );
}

#[test]
fn an_interrupted_change_is_continued_without_repeating_its_writes() {
    let mut server = Server::default();
    writes(&mut server, &devices(0..16), 4);
    let changed: Devices = (0..16).map(|name| (name, 1)).collect();
    assert_eq!(server.apply(&changed, 4, OWNER, 3), 1);
    assert_eq!(writes(&mut server, &changed, 4), 1);
}

#[test]
fn what_the_server_stores_differently_is_not_written_again() {
    let mut server = Server::default();
    let all = devices(0..4);
    writes(&mut server, &all, 4);
    let stripped = digest(&devices([]));
    server.slices[0].slice.digest = stripped;
    assert_eq!(server.plan(&all, 4, OWNER).1.writes.len(), 1);
    let observed: Vec<ObservedSlice> = server.slices.iter().map(|stored| stored.slice.clone()).collect();
    let keys: Vec<u64> = all.keys().map(|name| key(*name)).collect();
    let desired = Desired { keys: &keys, most: 4, owner: OWNER };
    let stored = StoredForms::from([(digest(&all), stripped)]);
    assert_eq!(plan(&observed, desired, &stored, |_| digest(&all)).writes, []);
}

proptest! {
    /// However often a plan is cut short and the desired devices change, the result is right, and consumers never see a mixture.
    #[test]
    fn any_history_converges(
        steps in proptest::collection::vec(
            (proptest::collection::btree_map(0u8..24, 0u8..2, 0..24), 0usize..8, 1usize..6), 1..12,
        ),
    ) {
        let mut server = Server::default();
        for (desired, limit, most) in &steps {
            server.apply(desired, *most, OWNER, *limit);
        }
        let (desired, _, most) = steps.last().unwrap();
        prop_assert_eq!(server.apply(desired, *most, OWNER, usize::MAX), 0);
        prop_assert_eq!(server.visible().unwrap_or_default(), desired.clone());
        let generations: BTreeSet<i64> = server.slices.iter().map(|s| s.slice.generation).collect();
        prop_assert!(generations.len() <= 1, "two generations remain");
        prop_assert_eq!(server.plan(desired, *most, OWNER).1.writes, []);
    }
}
