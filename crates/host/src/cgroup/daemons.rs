//! Limits of cgroups in which the host's daemons run (`systemReservedCgroup`, `kubeReservedCgroup`). Never creates one, and never writes
//! what is not reserved.

use std::thread;
use std::time::Duration;

use hostlet_base::CgroupDriver;

use super::controllers::{self, ControllerSetting};
use super::metrics::Operation;
use super::names::CgroupName;
use super::systemd::{self, Slices};
use super::{CgroupError, CgroupVersion, Cgroups, DaemonResources, files};

/// systemd enables a controller for a slice soon after it has answered.
const POLL: Duration = Duration::from_millis(10);
const POLLS: usize = 200;

/// A cgroup of daemons.
struct Found<'c> {
    /// As configured.
    configured: &'c str,
    name: CgroupName,
}

impl Cgroups {
    /// Fails unless the cgroup of daemons with this configured name exists.
    pub fn require_daemons(&self, cgroup: &str) -> Result<(), CgroupError> {
        self.existing(cgroup).map(drop)
    }

    /// Limits the cgroup of daemons with this configured name, which must exist. It needs only the controllers of what `resources` has.
    pub fn limit_daemons(&self, cgroup: &str, resources: &DaemonResources) -> Result<(), CgroupError> {
        let found = self.existing(cgroup)?;
        let limits = controllers::of_daemons(resources, &self.settings);
        self.metrics.timed(Operation::Update, || {
            if self.require_controllers(&found, &limits).is_err() {
                self.request_controllers(&found, &limits)?;
                self.require_controllers(&found, &limits)?;
            }
            self.apply(&found.name, &limits)
        })
    }

    fn existing<'c>(&self, configured: &'c str) -> Result<Found<'c>, CgroupError> {
        let name = CgroupName::of_daemons(configured, self.settings.driver)?;
        let mut places = self.controlling().map(|hierarchy| self.directory(hierarchy, &name));
        let first = places.next().unwrap_or_default();
        // On v1 systemd makes a slice in a hierarchy when it has a setting there.
        if first.is_dir() || places.any(|place| place.is_dir()) {
            Ok(Found { configured, name })
        } else {
            Err(CgroupError::NoSuchCgroup { cgroup: configured.to_owned(), path: first })
        }
    }

    /// Fails unless the cgroup has every controller that the limits need.
    fn require_controllers(
        &self,
        found: &Found<'_>,
        limits: &[ControllerSetting],
    ) -> Result<(), CgroupError> {
        for limit in limits.iter().filter(|limit| !limit.is_optional()) {
            let controller = limit.controller();
            let missing = vec![controller];
            let Some(hierarchy) = self.controlling().find(|hierarchy| hierarchy.controls(controller)) else {
                let mount = self.settings.mount.clone();
                return Err(CgroupError::MissingControllers { version: self.version(), mount, missing });
            };
            let path = self.directory(hierarchy, &found.name);
            match self.version() {
                CgroupVersion::V1 if path.is_dir() => {}
                CgroupVersion::V1 => {
                    return Err(CgroupError::NoSuchCgroup { cgroup: found.configured.to_owned(), path });
                }
                CgroupVersion::V2 => {
                    let enabled = files::read(&path.join("cgroup.controllers"))?;
                    if !enabled.split_whitespace().any(|name| name == controller) {
                        return Err(CgroupError::NotDelegated { path, missing });
                    }
                }
            }
        }
        Ok(())
    }

    /// Lets systemd enable the controllers, which follow from the properties. Without systemd they are the administrator's.
    fn request_controllers(
        &self,
        found: &Found<'_>,
        limits: &[ControllerSetting],
    ) -> Result<(), CgroupError> {
        match self.settings.driver {
            CgroupDriver::Cgroupfs => return Ok(()),
            CgroupDriver::Systemd => {}
        }
        Slices::connect()?.set(&found.name.slice(), &systemd::properties(self.version(), limits))?;
        for _ in 0..POLLS {
            if self.require_controllers(found, limits).is_ok() {
                break;
            }
            thread::sleep(POLL);
        }
        Ok(())
    }
}

#[cfg(test)]
#[path = "daemons_tests.rs"]
mod tests;
