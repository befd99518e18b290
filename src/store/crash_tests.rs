//! A crash of the host at every write of the store's file. What was not synced is lost, or is on the disk in part and out of
//! order; whatever is left opens with what was committed.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};
use proptest::collection::{btree_map, vec};
use proptest::prelude::*;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use redb::StorageBackend;

use super::Table;
use super::contents::{Changes, Key, Value};
use super::file::StoreFile;

/// Of what a disk writes, it writes each piece of so many bytes as a whole or not at all.
const SECTOR: usize = 512;

type Rows = BTreeMap<Key, Value>;

/// What a disk was asked for.
#[derive(Clone, Debug)]
enum Step {
    Write(usize, Vec<u8>),
    Length(usize),
    Sync,
    /// Of the transactions, so many were said to be written.
    Committed(usize),
}

/// A disk that remembers how it came to what it holds. All clones are one disk.
#[derive(Clone, Debug, Default)]
struct Disk(Arc<Mutex<Contents>>);

#[derive(Debug, Default)]
struct Contents {
    bytes: Vec<u8>,
    steps: Vec<Step>,
}

impl Contents {
    fn perform(&mut self, step: Step) {
        match &step {
            Step::Write(at, bytes) => self.bytes[*at..*at + bytes.len()].copy_from_slice(bytes),
            Step::Length(length) => self.bytes.resize(*length, 0),
            Step::Sync | Step::Committed(_) => {}
        }
        self.steps.push(step);
    }
}

impl Disk {
    fn of(bytes: Vec<u8>) -> Self {
        Self(Arc::new(Mutex::new(Contents { bytes, steps: Vec::new() })))
    }

    fn contents(&self) -> MutexGuard<'_, Contents> {
        self.0.lock()
    }

    fn steps(&self) -> Vec<Step> {
        self.contents().steps.clone()
    }
}

fn place(offset: u64) -> usize {
    usize::try_from(offset).unwrap()
}

impl StorageBackend for Disk {
    fn len(&self) -> io::Result<u64> {
        Ok(self.contents().bytes.len() as u64)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let contents = self.contents();
        let found = contents.bytes.get(place(offset)..place(offset) + out.len());
        out.copy_from_slice(found.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.contents().perform(Step::Length(place(len)));
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        self.contents().perform(Step::Sync);
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.contents().perform(Step::Write(place(offset), data.to_owned()));
        Ok(())
    }
}

/// What becomes of steps that were not synced.
#[derive(Clone, Copy, Debug)]
enum Luck {
    /// All are lost, as with the power.
    Lost,
    /// All are kept, as when only the daemon is killed.
    Kept,
    /// All are kept, but of the last write no more than the beginning.
    LastTorn,
    /// Each is lost, kept, or kept in some of its sectors.
    Any(u64),
}

/// How many of the steps are on the disk for certain.
fn synced(steps: &[Step]) -> usize {
    steps.iter().rposition(|step| matches!(step, Step::Sync)).map_or(0, |at| at + 1)
}

/// What is on the disk after a crash that came after these steps.
fn survived(steps: &[Step], luck: Luck) -> Vec<u8> {
    let synced = synced(steps);
    let last_write = steps.iter().rposition(|step| matches!(step, Step::Write(..)));
    let mut rng = StdRng::seed_from_u64(if let Luck::Any(seed) = luck { seed } else { 0 });
    let mut left = Contents::default();
    for (at, step) in steps.iter().enumerate() {
        if at < synced || matches!(luck, Luck::Kept) {
            left.perform(step.clone());
            continue;
        }
        match step {
            Step::Write(place, bytes) => {
                for (number, sector) in bytes.chunks(SECTOR).enumerate() {
                    let place = place + number * SECTOR;
                    let is_kept = match luck {
                        Luck::Lost => false,
                        Luck::Kept => true,
                        Luck::LastTorn => Some(at) != last_write || number < bytes.len() / SECTOR / 2,
                        Luck::Any(_) => rng.random_ratio(1, 2),
                    };
                    // The length that a write needs may have been lost.
                    if is_kept && place + sector.len() <= left.bytes.len() {
                        left.perform(Step::Write(place, sector.to_owned()));
                    }
                }
            }
            Step::Length(_) => {
                let is_kept = match luck {
                    Luck::Lost => false,
                    Luck::Kept | Luck::LastTorn => true,
                    Luck::Any(_) => rng.random_ratio(1, 2),
                };
                if is_kept {
                    left.perform(step.clone());
                }
            }
            Step::Sync | Step::Committed(_) => {}
        }
    }
    left.bytes
}

/// A transaction: rows by number, in two tables. A row of no length is one that goes.
fn transactions() -> impl Strategy<Value = Vec<Changes>> {
    let row = (0_usize..6, 0..2_usize);
    // Some larger than a page.
    let value = prop_oneof![Just(0), 1..200_usize, 4000..9000_usize];
    let transaction = btree_map(row, (value, any::<u8>()), 1..4).prop_map(|rows| -> Changes {
        let changes = rows.into_iter().map(|((key, table), (length, byte))| {
            let table = [Table::AdmittedPods, Table::CrashLoops][table];
            let value = (length > 0).then(|| Value::from(vec![byte; length]));
            ((table, format!("uid-{key}")), value)
        });
        changes.collect()
    });
    vec(transaction, 1..6)
}

/// Opens what is left, reads it, and shows that it can be written.
fn opened(bytes: Vec<u8>) -> Result<Rows, String> {
    let disk = Disk::of(bytes);
    let file = StoreFile::open(disk.clone()).map_err(|error| format!("opening: {error}"))?;
    let rows = file.read().map_err(|error| format!("reading: {error}"))?;
    let new = (Table::ImagePulls, "new".to_owned());
    let change = Changes::from([(new.clone(), Some(Value::from(*b"new")))]);
    file.write(&change).map_err(|error| format!("writing: {error}"))?;
    drop(file);
    let again = StoreFile::open(disk).and_then(|file| file.read());
    let mut again = again.map_err(|error| format!("opening again: {error}"))?;
    again.remove(&new);
    if again == rows { Ok(rows) } else { Err("what was read at first is not there any more".to_owned()) }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 6, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn after_a_crash_at_any_write_the_file_has_what_was_committed(
        transactions in transactions(),
        seed in any::<u64>(),
    ) {
        let disk = Disk::default();
        let file = StoreFile::open(disk.clone()).unwrap();
        // It has no name before it is whole.
        disk.contents().perform(Step::Committed(0));
        let mut states = std::vec![Rows::new()];
        for changes in &transactions {
            file.write(changes).unwrap();
            let mut rows = states[states.len() - 1].clone();
            for (key, value) in changes {
                match value {
                    Some(value) => drop(rows.insert(key.clone(), value.clone())),
                    None => drop(rows.remove(key)),
                }
            }
            disk.contents().perform(Step::Committed(states.len()));
            states.push(rows);
        }
        drop(file);

        let steps = disk.steps();
        for point in 1..=steps.len() {
            let committed = steps[..point].iter().rev().find_map(|step| match step {
                Step::Committed(count) => Some(*count),
                _ => None,
            });
            let Some(committed) = committed else { continue };
            let lucks = [Luck::Kept, Luck::Lost, Luck::LastTorn, Luck::Any(seed), Luck::Any(seed ^ point as u64)];
            // Of what is synced nothing is left to luck.
            let unsynced = &steps[synced(&steps[..point])..point];
            let is_synced = unsynced.iter().all(|step| matches!(step, Step::Committed(_)));
            for luck in lucks.into_iter().take(if is_synced { 1 } else { lucks.len() }) {
                let rows = opened(survived(&steps[..point], luck));
                // The one that was under way may have come through.
                let may_be = &states[committed..states.len().min(committed + 2)];
                prop_assert!(
                    rows.as_ref().is_ok_and(|rows| may_be.contains(rows)),
                    "after step {point} of {}, {luck:?}: {rows:?}",
                    steps.len()
                );
            }
        }
    }
}
