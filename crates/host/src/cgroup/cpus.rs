//! The CPUs that all pods may use on v2: those that are online. This limits nothing: systemd keeps the controller cpuset for a slice only if it
//! knows that the slice uses it, as upstream found. Version 1 has them from the parent of the cgroup.

use hostlet_base::{CgroupDriver, cpu_list, error_chain};

use super::names::CgroupName;
use super::systemd::{self, Slices};
use super::{CgroupError, CgroupVersion, Cgroups, files};

const FILE: &str = "cpuset.cpus";

impl Cgroups {
    /// Allows a cgroup these CPUs. Does nothing where the cgroup has no controller for it.
    pub(super) fn allow_cpus(&self, name: &CgroupName, cpus: &str) -> Result<(), CgroupError> {
        // A list that cannot be parsed is one that the kernel did not show.
        let Ok(set) = cpu_list(cpus) else { return Ok(()) };
        match self.version() {
            CgroupVersion::V1 => return Ok(()),
            CgroupVersion::V2 => {}
        }
        for hierarchy in self.controlling() {
            let file = self.directory(hierarchy, name).join(FILE);
            if files::read_if_present(&file)?.as_deref() == Some(cpus) {
                continue;
            }
            match self.settings.driver {
                CgroupDriver::Cgroupfs => {}
                CgroupDriver::Systemd => {
                    let property = systemd::allowed_cpus(&set);
                    if let Err(error) = Slices::connect()?.set(&name.slice(), &[property]) {
                        // Before version 244, which cannot lose the controller either.
                        tracing::debug!(error = error_chain(&error), "systemd does not know AllowedCPUs");
                    }
                }
            }
            if files::read_if_present(&file)?.is_some_and(|current| current != cpus) {
                files::write(&file, cpus)?;
            }
        }
        Ok(())
    }
}
