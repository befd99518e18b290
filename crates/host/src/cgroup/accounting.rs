//! Which cgroups there are to account for, by their paths below the mounts. Reads no controller.

use std::path::Path;

use hostlet_base::{PodUid, QosClass};

use super::{CgroupError, Cgroups, files};

impl Cgroups {
    /// Where the hierarchy of a controller is mounted; `None` if the host does not have the controller.
    pub fn mount_of(&self, controller: &str) -> Option<&Path> {
        self.controlling().find(|hierarchy| hierarchy.controls(controller)).map(|found| &*found.mount)
    }

    /// The cgroup of all pods; `None` if pods get no cgroups.
    pub fn all_pods_path(&self) -> Option<String> {
        self.settings.per_qos.then(|| self.all_pods().path(self.settings.driver))
    }

    /// The pods that have a cgroup, with its path. Pods that have just terminated may be among them.
    pub fn pod_paths(&self) -> Result<Vec<(PodUid, String)>, CgroupError> {
        let mut found = Vec::new();
        let memory = self.controlling().find(|hierarchy| hierarchy.controls("memory"));
        let Some(memory) = memory.filter(|_| self.settings.per_qos) else { return Ok(found) };
        for qos in [QosClass::Guaranteed, QosClass::Burstable, QosClass::BestEffort] {
            for entry in files::children(&self.directory(memory, &self.layout.qos(qos)))? {
                let Some(uid) = self.layout.uid_of(qos, &entry) else { continue };
                let path = self.layout.pod(&uid, qos)?.path(self.settings.driver);
                found.push((uid, path));
            }
        }
        Ok(found)
    }
}
