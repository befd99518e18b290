//! The file of the checkpoint: read at the start, replaced at each change. Blocks its thread.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use hostlet_base::error_chain;
use hostlet_host::replace_file;
use jiff::Timestamp;

use super::format::{self, Decoded};
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

/// The file, and hostlet's own copy of it, which counts when the file cannot be read: who has a device must not be forgotten while pods
/// run.
#[derive(Clone, Debug)]
pub(crate) struct CheckpointFile {
    path: PathBuf,
    copy: PathBuf,
}

impl CheckpointFile {
    /// The file in the directory of device plugins, with this copy.
    pub(crate) fn in_dir(dir: &Path, copy: &Path) -> Self {
        Self { path: dir.join(NAME), copy: copy.to_owned() }
    }

    /// Reads the file. Of one that is damaged counts what can be read, and what the copy says. Changes nothing.
    pub(crate) fn load(&self, now: Timestamp) -> Loaded {
        let path = self.path.display();
        let (decoded, existed, problem) = match fs::read(&self.path) {
            Ok(bytes) => {
                let mut decoded = format::read(&bytes);
                let problem = decoded.problem.take().map(|error| {
                    let readable = decoded.allocations.iter().count();
                    let error = error_chain(&error);
                    format!("{path} is damaged: {error}; {readable} allocations could be read")
                });
                (decoded, true, problem)
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let problem = self.copy.exists().then(|| format!("{path} is gone"));
                (Decoded::default(), problem.is_some(), problem)
            }
            Err(error) => (Decoded::default(), true, Some(format!("{path} cannot be read: {error}"))),
        };
        let Decoded { mut registered, mut allocations, .. } = decoded;
        let damage = problem.map(|problem| {
            let copied = format::read(&fs::read(&self.copy).unwrap_or_default());
            let known = match copied.problem {
                None => {
                    format!("{} allocations are known from hostlet's copy", copied.allocations.iter().count())
                }
                Some(_) => "hostlet has no copy, so which devices pods have may not be known".to_owned(),
            };
            registered.extend(copied.registered);
            allocations.extend(copied.allocations);
            let aside = self.path.with_added_extension(format!("aside-{}", now.as_second()));
            let set_aside = match self.path.exists() {
                true => format!("; the file is set aside as {}", aside.display()),
                false => String::new(),
            };
            Damage { problem: format!("{problem}; {known}{set_aside}"), aside }
        });
        Loaded { existed, registered, allocations, damage }
    }

    /// Renames the damaged file, for a person to look at.
    pub(crate) fn set_aside(&self, damage: &Damage) -> Result<(), WriteError> {
        match fs::rename(&self.path, &damage.aside) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(WriteError { path: damage.aside.clone(), source: error })
            }
            Ok(()) | Err(_) => Ok(()),
        }
    }

    /// Replaces the file, and then the copy. The latter need not survive a power cut: no pod runs then.
    pub(crate) fn write(&self, content: &[u8]) -> Result<(), WriteError> {
        // Upstream's mode.
        let written = replace_file(&self.path, content, 0o600);
        written.map_err(|source| WriteError { path: self.path.clone(), source })?;
        if let Err(error) = self.write_copy(content) {
            tracing::warn!(path = %self.copy.display(), %error, "cannot copy the checkpoint of devices");
        }
        Ok(())
    }

    fn write_copy(&self, content: &[u8]) -> io::Result<()> {
        let new = self.copy.with_added_extension("new");
        fs::write(&new, content)?;
        fs::rename(&new, &self.copy)
    }
}

#[cfg(test)]
mod tests {
    use hostlet_proto::device_plugin::ContainerAllocateResponse;

    use super::*;
    use crate::allocation::Allocation;

    #[test]
    fn a_damaged_file_is_set_aside_and_what_can_be_read_of_it_counts() {
        let dir = tempfile::tempdir().unwrap();
        let file = CheckpointFile::in_dir(dir.path(), &dir.path().join("copy"));
        assert!(!file.load(Timestamp::UNIX_EPOCH).existed);
        let data = r#"{"Data":{"PodDeviceEntries":[{"PodUID":"u","ContainerName":"c","ResourceName":"v.com/gpu",
            "DeviceIDs":{"-1":["a"]},"AllocResp":""}],"RegisteredDevices":{"v.com/gpu":["a","b"]}},"Checksum":1}"#;
        fs::write(&file.path, data).unwrap();
        let loaded = file.load(Timestamp::UNIX_EPOCH);
        assert!(loaded.existed);
        assert_eq!(loaded.allocations.in_use("v.com/gpu").len(), 1);
        assert_eq!(loaded.registered["v.com/gpu"].len(), 2);
        let damage = loaded.damage.unwrap();
        let problem = &damage.problem;
        assert!(
            problem.contains("its checksum is 1, and ")
                && problem.contains("1 allocations could be read; hostlet has no"),
            "{problem}"
        );
        file.set_aside(&damage).unwrap();
        assert!(!file.path.exists());
        assert_eq!(fs::read_to_string(dir.path().join(format!("{NAME}.aside-0"))).unwrap(), data);

        file.write(&format::encode(&loaded.registered, &loaded.allocations)).unwrap();
        let again = file.load(Timestamp::UNIX_EPOCH);
        assert_eq!(again.allocations, loaded.allocations);
        assert!(again.damage.is_none());
        fs::write(&file.path, "{").unwrap();
        let loaded = file.load(Timestamp::UNIX_EPOCH);
        assert!(loaded.damage.unwrap().problem.contains("it is not a checkpoint of devices"));
        assert_eq!(loaded.registered.len(), 1, "the copy is used");
    }

    #[test]
    fn who_has_a_device_is_known_from_the_copy_whatever_happens_to_the_file() {
        let dir = tempfile::tempdir().unwrap();
        let file = CheckpointFile::in_dir(dir.path(), &dir.path().join("copy"));
        let mut allocations = Allocations::default();
        let devices = [(0, vec!["gpu-0".to_owned()])].into();
        let allocation = Allocation { devices, response: ContainerAllocateResponse::default() };
        allocations.insert(&"u".into(), "c", "v.com/gpu", allocation);
        let content =
            format::encode(&[("v.com/gpu".to_owned(), ["gpu-0".to_owned()].into())].into(), &allocations);
        file.write(&content).unwrap();
        for damage in ["", "{", "truncated", "gone"] {
            match damage {
                // It was set aside.
                "gone" => assert!(!file.path.exists()),
                "truncated" => fs::write(&file.path, &content[..content.len() / 2]).unwrap(),
                _ => fs::write(&file.path, damage).unwrap(),
            }
            let loaded = file.load(Timestamp::UNIX_EPOCH);
            assert!(loaded.existed);
            assert_eq!(loaded.allocations, allocations, "{damage}");
            let damage = loaded.damage.unwrap();
            assert!(
                damage.problem.contains("1 allocations are known from hostlet's copy"),
                "{}",
                damage.problem
            );
            file.set_aside(&damage).unwrap();
        }
        // A sound file counts alone: another kubelet may have written it.
        file.write(&content).unwrap();
        let empty = format::encode(&BTreeMap::new(), &Allocations::default());
        fs::write(&file.path, empty).unwrap();
        let loaded = file.load(Timestamp::UNIX_EPOCH);
        assert!(loaded.damage.is_none() && loaded.allocations == Allocations::default());
    }
}
