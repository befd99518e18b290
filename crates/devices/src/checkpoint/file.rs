//! The file of the checkpoint: read at the start, replaced at each change. Blocks its thread.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use hostlet_base::error_chain;
use hostlet_host::replace_file;
use jiff::Timestamp;

use super::format;
use crate::allocation::Allocations;
use crate::device::DeviceIds;

/// Upstream's name of the file.
const NAME: &str = "kubelet_internal_checkpoint";

/// Whether a kubelet has recorded in this directory of device plugins which pod has which device. Blocks its thread.
pub fn has_checkpoint(dir: &Path) -> bool {
    dir.join(NAME).exists()
}

/// Why the file cannot be written.
#[derive(Debug, thiserror::Error)]
#[error("cannot write {}", path.display())]
pub(crate) struct WriteError {
    path: PathBuf,
    source: io::Error,
}

/// What the file says at the start.
pub(crate) struct Loaded {
    /// Whether a kubelet wrote one on this host before.
    pub(crate) existed: bool,
    pub(crate) registered: BTreeMap<String, DeviceIds>,
    pub(crate) allocations: Allocations,
    /// What was wrong with it.
    pub(crate) damage: Option<Damage>,
}

/// A file that cannot be used.
#[derive(Clone, Debug)]
pub(crate) struct Damage {
    /// A sentence.
    pub(crate) problem: String,
    /// Where the file is to be.
    aside: PathBuf,
}

/// The file.
#[derive(Clone, Debug)]
pub(crate) struct CheckpointFile(PathBuf);

impl CheckpointFile {
    /// The file in the directory of device plugins.
    pub(crate) fn in_dir(dir: &Path) -> Self {
        Self(dir.join(NAME))
    }

    /// Reads the file. Of one that is damaged counts what can be read. Changes nothing.
    pub(crate) fn load(&self, now: Timestamp) -> Loaded {
        let aside = self.0.with_added_extension(format!("aside-{}", now.as_second()));
        let none = |existed, damage| Loaded {
            existed,
            registered: BTreeMap::new(),
            allocations: Allocations::default(),
            damage,
        };
        let bytes = match fs::read(&self.0) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return none(false, None),
            Err(error) => {
                let problem = format!(
                    "{} cannot be read: {error}; which devices pods have is not known",
                    self.0.display()
                );
                return none(true, Some(Damage { problem, aside }));
            }
        };
        let decoded = format::read(&bytes);
        let damage = decoded.problem.map(|error| {
            let problem = format!(
                "{} is damaged: {}; {} allocations could be read; the file is set aside as {}",
                self.0.display(),
                error_chain(&error),
                decoded.allocations.iter().count(),
                aside.display()
            );
            Damage { problem, aside }
        });
        let (registered, allocations) = (decoded.registered, decoded.allocations);
        Loaded { existed: true, registered, allocations, damage }
    }

    /// Renames the damaged file, for a person to look at.
    pub(crate) fn set_aside(&self, damage: &Damage) -> Result<(), WriteError> {
        fs::rename(&self.0, &damage.aside).map_err(|source| WriteError { path: damage.aside.clone(), source })
    }

    /// Replaces the file.
    pub(crate) fn write(&self, content: &[u8]) -> Result<(), WriteError> {
        // Upstream's mode.
        replace_file(&self.0, content, 0o600).map_err(|source| WriteError { path: self.0.clone(), source })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_damaged_file_is_set_aside_and_what_can_be_read_of_it_counts() {
        let dir = tempfile::tempdir().unwrap();
        let file = CheckpointFile::in_dir(dir.path());
        assert!(!file.load(Timestamp::UNIX_EPOCH).existed);
        let data = r#"{"Data":{"PodDeviceEntries":[{"PodUID":"u","ContainerName":"c","ResourceName":"v.com/gpu",
            "DeviceIDs":{"-1":["a"]},"AllocResp":""}],"RegisteredDevices":{"v.com/gpu":["a","b"]}},"Checksum":1}"#;
        fs::write(&file.0, data).unwrap();
        let loaded = file.load(Timestamp::UNIX_EPOCH);
        assert!(loaded.existed);
        assert_eq!(loaded.allocations.in_use("v.com/gpu").len(), 1);
        assert_eq!(loaded.registered["v.com/gpu"].len(), 2);
        let damage = loaded.damage.unwrap();
        let problem = &damage.problem;
        assert!(
            problem.contains("its checksum is 1, and ") && problem.contains("1 allocations"),
            "{problem}"
        );
        file.set_aside(&damage).unwrap();
        assert!(!file.0.exists());
        assert_eq!(fs::read_to_string(dir.path().join(format!("{NAME}.aside-0"))).unwrap(), data);

        file.write(&format::encode(&loaded.registered, &loaded.allocations)).unwrap();
        let again = file.load(Timestamp::UNIX_EPOCH);
        assert_eq!(again.allocations, loaded.allocations);
        assert!(again.damage.is_none());
        fs::write(&file.0, "{").unwrap();
        let loaded = file.load(Timestamp::UNIX_EPOCH);
        assert!(loaded.damage.unwrap().problem.contains("it is not a checkpoint of devices"));
        assert!(loaded.registered.is_empty());
    }
}
