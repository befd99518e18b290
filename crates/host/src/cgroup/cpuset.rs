//! The CPUs and NUMA nodes on which the containers of a pod run, as the kernel has them. Changes nothing.

use hostlet_base::{PodUid, QosClass};

use super::{CgroupError, CgroupVersion, Cgroups, files};

/// The CPUs and NUMA nodes of a container's cgroup, in the kernel's list format (`cpuset(7)`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContainerCpuset {
    /// The name of the cgroup, which contains the ID of the container.
    pub cgroup: String,
    /// Its CPUs.
    pub cpus: String,
    /// The NUMA nodes of its memory.
    pub memory_nodes: String,
}

impl Cgroups {
    /// The cpusets of a pod's containers. Those that have none of their own run where the pod may.
    pub fn cpusets(&self, uid: &PodUid, qos: QosClass) -> Result<Vec<ContainerCpuset>, CgroupError> {
        let Some(hierarchy) = self.controlling().find(|hierarchy| hierarchy.controls("cpuset")) else {
            return Ok(Vec::new());
        };
        let [cpu_file, memory_file] = match self.version() {
            CgroupVersion::V1 => ["cpuset.effective_cpus", "cpuset.effective_mems"],
            CgroupVersion::V2 => ["cpuset.cpus.effective", "cpuset.mems.effective"],
        };
        let pod = self.directory(hierarchy, &self.layout.pod(uid, qos)?);
        let mut found = Vec::new();
        for cgroup in files::children(&pod)? {
            let directory = pod.join(&cgroup);
            let read = |file: &str| files::read_if_present(&directory.join(file));
            // Without one of them, the cgroup was removed meanwhile.
            let (Some(cpus), Some(memory_nodes)) = (read(cpu_file)?, read(memory_file)?) else { continue };
            found.push(ContainerCpuset { cgroup, cpus, memory_nodes });
        }
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::cgroup::testing::v2_host;

    #[test]
    fn cpusets_are_those_of_the_cgroups_below_the_pods() {
        let (_dir, settings) = v2_host("cpuset cpu memory pids hugetlb");
        let pod = settings.mount.join("kubepods/poda-b");
        let cgroups = Cgroups::open(settings).unwrap();
        for (name, cpus) in [("one", "2-3"), ("two", "0-1,4")] {
            fs::create_dir_all(pod.join(name)).unwrap();
            fs::write(pod.join(name).join("cpuset.cpus.effective"), format!("{cpus}\n")).unwrap();
            fs::write(pod.join(name).join("cpuset.mems.effective"), "0\n").unwrap();
        }
        fs::create_dir(pod.join("removed")).unwrap();
        let mut found = cgroups.cpusets(&PodUid::from("a-b"), QosClass::Guaranteed).unwrap();
        found.sort_by(|a, b| a.cgroup.cmp(&b.cgroup));
        let of = |cgroup: &str, cpus: &str| ContainerCpuset {
            cgroup: cgroup.to_owned(),
            cpus: cpus.to_owned(),
            memory_nodes: "0".to_owned(),
        };
        assert_eq!(found, [of("one", "2-3"), of("two", "0-1,4")]);
        assert_eq!(cgroups.cpusets(&PodUid::from("none"), QosClass::Guaranteed).unwrap(), []);
    }
}
