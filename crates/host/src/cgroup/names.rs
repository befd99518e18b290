//! Names and paths of cgroups for both drivers, and the way back from a directory name to the pod. Pure.

use hostlet_base::CgroupDriver;
use hostlet_base::{PodUid, QosClass};

use super::CgroupError;

const KUBEPODS: &str = "kubepods";
const POD_PREFIX: &str = "pod";
const SLICE_SUFFIX: &str = ".slice";
/// A longer UID does not fit in a unit's name (255 bytes) below a `cgroupRoot` of usual length.
const MAX_UID_LEN: usize = 128;

/// A cgroup as its components below the root, independent of the driver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct CgroupName(Vec<String>);

impl CgroupName {
    /// Parses `cgroupRoot`; empty and `/` mean the root.
    fn root(path: &str) -> Result<Self, CgroupError> {
        let components: Vec<String> =
            path.split('/').filter(|part| !part.is_empty()).map(String::from).collect();
        let plain = |part: &String| {
            part != "."
                && part != ".."
                && !part.starts_with('-')
                && part.chars().all(|c| c.is_ascii_alphanumeric() || "-_.:@".contains(c))
        };
        if components.iter().all(plain) {
            Ok(Self(components))
        } else {
            Err(CgroupError::BadRoot { root: path.into() })
        }
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
