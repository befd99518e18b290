//! Names and paths of cgroups for both drivers, and the way back from a directory name to the pod. Pure.

use hostlet_base::CgroupDriver;
use hostlet_base::{PodUid, QosClass};

use super::CgroupError;

const KUBEPODS: &str = "kubepods";
const POD_PREFIX: &str = "pod";
const SLICE_SUFFIX: &str = ".slice";
/// Units that have cgroups and are no slices.
const OTHER_UNITS: [&str; 5] = [".service", ".scope", ".socket", ".mount", ".swap"];
/// A longer UID does not fit in a unit's name (255 bytes) below a `cgroupRoot` of usual length.
const MAX_UID_LEN: usize = 128;

/// A cgroup as its components below the root, independent of the driver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct CgroupName(Vec<String>);

impl CgroupName {
    /// Parses `cgroupRoot`; empty and `/` mean the root.
    fn root(path: &str) -> Result<Self, CgroupError> {
        let components = components(path);
        if components.iter().all(|part| is_plain(part)) {
            Ok(Self(components))
        } else {
            Err(CgroupError::BadRoot { root: path.into() })
        }
    }

    /// Parses the name of a cgroup of the host's daemons as upstream does: a path, of which the systemd driver takes only the last part, as
    /// the name of a slice. `/system-reserved` is `/system.slice/system-reserved.slice` then.
    pub(super) fn of_daemons(path: &str, driver: CgroupDriver) -> Result<Self, CgroupError> {
        let parts = match driver {
            CgroupDriver::Cgroupfs => components(path),
            CgroupDriver::Systemd => {
                let last = components(path).pop().unwrap_or_default();
                if OTHER_UNITS.iter().any(|suffix| last.ends_with(suffix)) {
                    return Err(CgroupError::NotASlice { cgroup: path.to_owned() });
                }
                let stem = last.strip_suffix(SLICE_SUFFIX).unwrap_or(&last);
                stem.split('-').map(|part| part.replace('_', "-")).collect()
            }
        };
        // systemd escapes other characters with a backslash.
        let is_name = |part: &String| !part.is_empty() && is_plain(&part.replace('\\', ""));
        let is_named = !parts.is_empty() && parts.iter().all(is_name);
        if is_named { Ok(Self(parts)) } else { Err(CgroupError::BadPath { path: path.to_owned() }) }
    }

    /// Its components as upstream prints them in messages.
    pub(super) fn printed(&self) -> String {
        let quoted: Vec<String> = self.0.iter().map(|part| format!("{part:?}")).collect();
        format!("[{}]", quoted.join(" "))
    }

    fn child(&self, component: &str) -> Self {
        let mut components = self.0.clone();
        components.push(component.to_owned());
        Self(components)
    }

    /// Its ancestors without the root, and the cgroup itself, from the top.
    pub(super) fn lineage(&self) -> impl Iterator<Item = Self> {
        (1..=self.0.len()).map(|depth| Self(self.0[..depth].to_vec()))
    }

    /// The path below the mount, with a leading slash; also the CRI's `cgroup_parent`.
    pub(super) fn path(&self, driver: CgroupDriver) -> String {
        match driver {
            CgroupDriver::Cgroupfs => format!("/{}", self.0.join("/")),
            CgroupDriver::Systemd => {
                let slices: Vec<String> = self.lineage().map(|name| name.slice()).collect();
                format!("/{}", slices.join("/"))
            }
        }
    }

    /// The name of the slice unit. Dashes in components become underscores, since systemd nests slices by dashes
    /// (systemd.slice(5)). The root is `-.slice`.
    pub(super) fn slice(&self) -> String {
        format!("{}{SLICE_SUFFIX}", self.stem())
    }

    pub(super) fn parent_slice(&self) -> String {
        Self(self.0[..self.0.len().saturating_sub(1)].to_vec()).slice()
    }

    fn stem(&self) -> String {
        if self.0.is_empty() {
            return "-".to_owned();
        }
        let parts: Vec<String> = self.0.iter().map(|part| part.replace('-', "_")).collect();
        parts.join("-")
    }
}

fn components(path: &str) -> Vec<String> {
    path.split('/').filter(|part| !part.is_empty()).map(String::from).collect()
}

/// Whether a component can be a directory of its own, and part of a unit's name.
fn is_plain(component: &str) -> bool {
    component != "."
        && component != ".."
        && !component.starts_with('-')
        && component.chars().all(|c| c.is_ascii_alphanumeric() || "-_.:@".contains(c))
}

/// The tree of one node: `<root>/kubepods`, below it the cgroups of the Burstable and BestEffort classes, and pods.
#[derive(Clone, Debug)]
pub(super) struct Layout {
    driver: CgroupDriver,
    kubepods: CgroupName,
}

impl Layout {
    /// The layout below `root` (`cgroupRoot`).
    pub(super) fn new(driver: CgroupDriver, root: &str) -> Result<Self, CgroupError> {
        Ok(Self { driver, kubepods: CgroupName::root(root)?.child(KUBEPODS) })
    }

    /// The parent cgroup of the pods of a class.
    pub(super) fn qos(&self, qos: QosClass) -> CgroupName {
        match qos {
            QosClass::Guaranteed => self.kubepods.clone(),
            QosClass::Burstable => self.kubepods.child("burstable"),
            QosClass::BestEffort => self.kubepods.child("besteffort"),
        }
    }

    /// The cgroup of a pod. Unusual UIDs are rejected: they come from manifests and become part of paths.
    pub(super) fn pod(&self, uid: &PodUid, qos: QosClass) -> Result<CgroupName, CgroupError> {
        let text = uid.as_str();
        let plain = text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'.');
        if text.is_empty() || text.len() > MAX_UID_LEN || !plain {
            return Err(CgroupError::BadUid { uid: text.to_owned() });
        }
        Ok(self.qos(qos).child(&format!("{POD_PREFIX}{text}")))
    }

    /// The pod whose cgroup is the directory `entry` in the cgroup of `qos`, if it is a pod's.
    pub(super) fn uid_of(&self, qos: QosClass, entry: &str) -> Option<PodUid> {
        let uid = match self.driver {
            CgroupDriver::Cgroupfs => entry.strip_prefix(POD_PREFIX)?.to_owned(),
            CgroupDriver::Systemd => {
                let stem = entry.strip_suffix(SLICE_SUFFIX)?.strip_prefix(&self.qos(qos).stem())?;
                stem.strip_prefix('-')?.strip_prefix(POD_PREFIX)?.replace('_', "-")
            }
        };
        let uid = PodUid::from(uid);
        self.pod(&uid, qos).ok().map(|_| uid)
    }
}

#[cfg(test)]
#[path = "names_tests.rs"]
mod tests;
