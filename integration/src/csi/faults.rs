//! Scripted faults of a driver: a file that tests write, and of which the driver takes what it meets. Both lock it.

use std::collections::{BTreeMap, VecDeque};
use std::fs::File;
use std::io::{Read, Seek, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

/// What goes wrong in a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Fault {
    /// It fails with this gRPC code, and was not done.
    Fails(i32),
    /// It fails with this gRPC code, but was done: the answer is lost.
    Loses(i32),
    /// Nothing happens until [`Faults::release`]; then it is done.
    Hangs,
    /// It is done, and answered after [`Faults::release`].
    HangsDone,
    /// The driver is killed before it is done.
    Dies,
    /// The driver is killed after it was done.
    DiesDone,
}

/// The file.
#[derive(Clone, Debug)]
pub struct Faults(PathBuf);

#[derive(Debug, Default, Serialize, Deserialize)]
struct Script {
    releases: u64,
    /// Of the next calls of a method, by its name (`NodeStageVolume`).
    next: BTreeMap<String, VecDeque<Fault>>,
    /// Of all others.
    always: BTreeMap<String, Fault>,
}

impl Faults {
    /// The faults in this file, which need not exist.
    pub fn at(path: &Path) -> Self {
        Self(path.to_owned())
    }

    /// Lets the next calls of a method go wrong, after those that are scripted already.
    pub fn next(&self, method: &str, faults: impl IntoIterator<Item = Fault>) -> Result<()> {
        self.change(|script| script.next.entry(method.to_owned()).or_default().extend(faults))
    }

    /// Lets all calls of a method go wrong from now on.
    pub fn always(&self, method: &str, fault: Fault) -> Result<()> {
        self.change(|script| {
            script.always.insert(method.to_owned(), fault);
        })
    }

    /// Lets calls of a method succeed again. Those that hang still do.
    pub fn clear(&self, method: &str) -> Result<()> {
        self.change(|script| {
            script.next.remove(method);
            script.always.remove(method);
        })
    }

    /// Lets all calls that hang go on.
    pub fn release(&self) -> Result<()> {
        self.change(|script| script.releases += 1)
    }

    /// For the driver: what goes wrong in a call that begins.
    pub fn take(&self, method: &str) -> Result<Option<Fault>> {
        self.change(|script| {
            let next = script.next.get_mut(method).and_then(VecDeque::pop_front);
            next.or_else(|| script.always.get(method).copied())
        })
    }

    /// For the driver: how often calls that hang were released.
    pub fn releases(&self) -> Result<u64> {
        self.change(|script| script.releases)
    }

    fn change<T>(&self, work: impl FnOnce(&mut Script) -> T) -> Result<T> {
        let path = self.0.display();
        let file = File::options().read(true).write(true).create(true).truncate(false).open(&self.0);
        let mut file = file.with_context(|| format!("opening {path}"))?;
        file.lock().with_context(|| format!("locking {path}"))?;
        let mut text = String::new();
        file.read_to_string(&mut text).with_context(|| format!("reading {path}"))?;
        let mut script = if text.is_empty() { Script::default() } else { serde_json::from_str(&text)? };
        let result = work(&mut script);
        file.set_len(0).and_then(|()| file.rewind()).with_context(|| format!("emptying {path}"))?;
        file.write_all(&serde_json::to_vec(&script)?).with_context(|| format!("writing {path}"))?;
        Ok(result)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_is_taken_in_order() {
        let dir = tempfile::tempdir().unwrap();
        let (test, driver) = (Faults::at(&dir.path().join("faults")), Faults::at(&dir.path().join("faults")));
        assert_eq!(driver.take("NodeStageVolume").unwrap(), None);
        test.next("NodeStageVolume", [Fault::Dies, Fault::Fails(13)]).unwrap();
        test.always("NodeStageVolume", Fault::Hangs).unwrap();
        let taken: Vec<_> = (0..4).map(|_| driver.take("NodeStageVolume").unwrap().unwrap()).collect();
        assert_eq!(taken, [Fault::Dies, Fault::Fails(13), Fault::Hangs, Fault::Hangs]);
        assert_eq!(driver.take("NodeUnstageVolume").unwrap(), None);
        test.clear("NodeStageVolume").unwrap();
        assert_eq!((driver.take("NodeStageVolume").unwrap(), driver.releases().unwrap()), (None, 0));
        test.release().unwrap();
        assert_eq!(driver.releases().unwrap(), 1);
    }
}
