//! Crashes of the host at every write of the store's file. Unsynced writes are lost, partial or reordered; the remaining file
//! must open with the committed rows.

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

/// A disk writes a sector of this size entirely or not at all.
const SECTOR: usize = 512;

type Rows = BTreeMap<Key, Value>;

/// An operation on the disk.
#[derive(Clone, Debug)]
enum Step {
    Write(usize, Vec<u8>),
    Length(usize),
    Sync,
    /// This many transactions have been acknowledged.
    Committed(usize),
}

/// A disk that records its operations. Clones share it.
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

/// The fate of unsynced operations.
#[derive(Clone, Copy, Debug)]
enum Luck {
    /// All are lost, as in a power failure.
    Lost,
    /// All survive, as when only the daemon is killed.
    Survives,
    /// All survive, except that the last write is truncated.
    LastTorn,
    /// Each survives, in part or not at all, by sector.
    Any(u64),
}

/// Number of operations that are guaranteed to be on the disk.
fn synced(steps: &[Step]) -> usize {
    steps.iter().rposition(|step| matches!(step, Step::Sync)).map_or(0, |at| at + 1)
}

/// The disk's content after a crash that follows these operations.
fn survived(steps: &[Step], luck: Luck) -> Vec<u8> {
    let synced = synced(steps);
    let last_write = steps.iter().rposition(|step| matches!(step, Step::Write(..)));
    let mut rng = StdRng::seed_from_u64(if let Luck::Any(seed) = luck { seed } else { 0 });
    let mut left = Contents::default();
    for (at, step) in steps.iter().enumerate() {
        if at < synced || matches!(luck, Luck::Survives) {
            left.perform(step.clone());
            continue;
        }
        match step {
            Step::Write(place, bytes) => {
                for (number, sector) in bytes.chunks(SECTOR).enumerate() {
                    let place = place + number * SECTOR;
                    let survives = match luck {
                        Luck::Lost => false,
                        Luck::Survives => true,
                        Luck::LastTorn => Some(at) != last_write || number < bytes.len() / SECTOR / 2,
                        Luck::Any(_) => rng.random_ratio(1, 2),
                    };
                    // The change of length that the write needs may have been lost.
                    if survives && place + sector.len() <= left.bytes.len() {
                        left.perform(Step::Write(place, sector.to_owned()));
                    }
                }
            }
            Step::Length(_) => {
                let survives = match luck {
                    Luck::Lost => false,
                    Luck::Survives | Luck::LastTorn => true,
                    Luck::Any(_) => rng.random_ratio(1, 2),
                };
                if survives {
                    left.perform(step.clone());
                }
            }
            Step::Sync | Step::Committed(_) => {}
        }
    }
    left.bytes
}

/// Transactions of numbered rows in two tables. A row of length zero is a removal.
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

/// Opens and reads the remaining file, and checks that it can be written.
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
        // The file gets its name only when it is complete.
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
            let lucks = [Luck::Survives, Luck::Lost, Luck::LastTorn, Luck::Any(seed), Luck::Any(seed ^ point as u64)];
            // Synced operations always survive.
            let unsynced = &steps[synced(&steps[..point])..point];
            let is_synced = unsynced.iter().all(|step| matches!(step, Step::Committed(_)));
            for luck in lucks.into_iter().take(if is_synced { 1 } else { lucks.len() }) {
                let rows = opened(survived(&steps[..point], luck));
                // The transaction in progress may have been committed.
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
