//! What a node's driver has staged and published: remembered over restarts of the driver, not over those of the host.

use std::collections::BTreeMap;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use crate::host;

/// Where the kernel says which boot this is.
const BOOT: &str = "/proc/sys/kernel/random/boot_id";

/// A target that a volume is published at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Target {
    pub(crate) volume: String,
    pub(crate) is_block: bool,
    pub(crate) read_only: bool,
    /// Whether no other target may have the volume.
    pub(crate) is_single: bool,
    /// Whether the volume ends with the pod.
    pub(crate) is_ephemeral: bool,
}

/// Where a volume is staged.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Staged {
    pub(crate) path: PathBuf,
    pub(crate) is_block: bool,
}

#[derive(Debug, Default, Serialize, Deserialize)]
struct Contents {
    boot: String,
    staged: BTreeMap<String, Staged>,
    targets: BTreeMap<PathBuf, Target>,
}

/// All of it.
pub(crate) struct Published {
    file: PathBuf,
    contents: Contents,
}

impl Published {
    /// What is in this file, as far as it is still mounted.
    pub(crate) fn read(file: PathBuf) -> Result<Self> {
        let boot = fs::read_to_string(BOOT).context("reading the identifier of this boot")?;
        let known: Contents = match fs::read(&file) {
            Ok(text) if !text.is_empty() => {
                serde_json::from_slice(&text).context("a broken file of a node")?
            }
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error).context("reading a node"),
            Ok(_) | Err(_) => Contents::default(),
        };
        let contents = if known.boot == boot { known } else { Contents { boot, ..Contents::default() } };
        let mut published = Self { file, contents };
        let mut gone = Vec::new();
        for path in published.contents.targets.keys() {
            if !host::is_mounted(path)? {
                gone.push(path.clone());
            }
        }
        published.contents.targets.retain(|path, _| !gone.contains(path));
        Ok(published)
    }

    fn write(&self) -> Result<()> {
        fs::write(&self.file, serde_json::to_vec(&self.contents)?).context("writing a node")
    }

    pub(crate) fn staged(&self, volume: &str) -> Option<&Staged> {
        self.contents.staged.get(volume)
    }

    pub(crate) fn set_staged(&mut self, volume: &str, staged: Option<Staged>) -> Result<()> {
        match staged {
            Some(staged) => drop(self.contents.staged.insert(volume.to_owned(), staged)),
            None => drop(self.contents.staged.remove(volume)),
        }
        self.write()
    }

    pub(crate) fn target(&self, path: &Path) -> Option<&Target> {
        self.contents.targets.get(path)
    }

    pub(crate) fn targets_of<'p>(
        &'p self,
        volume: &'p str,
    ) -> impl Iterator<Item = (&'p PathBuf, &'p Target)> {
        self.contents.targets.iter().filter(move |(_, target)| target.volume == volume)
    }

    pub(crate) fn set_target(&mut self, path: &Path, target: Option<Target>) -> Result<()> {
        match target {
            Some(target) => drop(self.contents.targets.insert(path.to_owned(), target)),
            None => drop(self.contents.targets.remove(path)),
        }
        self.write()
    }
}
