//! Detects the host's cgroup hierarchies and their controllers from the kernel's mount list. Changes nothing.

use std::fmt;
use std::path::{Path, PathBuf};

use hostlet_telemetry::Metrics;
use nix::unistd::{AccessFlags, access};
use procfs::FromRead;
use procfs::process::{MountInfo, MountInfos};

use super::{CgroupError, CgroupSettings, files};

/// The controllers of cgroups(7), by the names of their v1 mount options.
const V1_CONTROLLERS: [&str; 13] = [
    "cpu",
    "cpuacct",
    "cpuset",
    "memory",
    "devices",
    "freezer",
    "blkio",
    "pids",
    "hugetlb",
    "net_cls",
    "net_prio",
    "perf_event",
    "rdma",
];
/// Controllers that the runtime or pod accounting requires, in addition to those written here.
const V1_ALSO_REQUIRED: [&str; 2] = ["cpuacct", "cpuset"];
const V2_ALSO_REQUIRED: [&str; 1] = ["cpuset"];

/// The version of the kernel's interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CgroupVersion {
    /// One hierarchy per controller, possibly with a v2 hierarchy that controls nothing that pods need (hybrid).
    V1,
    /// The unified hierarchy.
    V2,
}

impl CgroupVersion {
    /// Registers it as a metric, under upstream's name.
    pub fn register(self, metrics: &Metrics) {
        let number = match self {
            Self::V1 => 1,
            Self::V2 => 2,
        };
        let help = "cgroup version on the hosts.";
        metrics.register_gauge("kubelet_cgroup_version", help, move || vec![(Vec::new(), number)]);
    }
}

impl fmt::Display for CgroupVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::V1 => "v1",
            Self::V2 => "v2",
        })
    }
}

/// The use of a hierarchy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// Pods have cgroups in it.
    Controlling,
    /// The v2 hierarchy of a hybrid host: a runtime may leave cgroups there, which are removed.
    Cleaned,
}

/// One mounted hierarchy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Hierarchy {
    pub(super) mount: PathBuf,
    pub(super) controllers: Vec<String>,
    pub(super) role: Role,
}

impl Hierarchy {
    pub(super) fn controls(&self, controller: &str) -> bool {
        self.controllers.iter().any(|name| name == controller)
    }
}

/// Finds the hierarchies at or below `settings.mount`.
pub(super) fn detect(settings: &CgroupSettings) -> Result<(CgroupVersion, Vec<Hierarchy>), CgroupError> {
    let path = settings.proc.join("self/mountinfo");
    let mounts = MountInfos::from_file(&path)
        .map_err(|source| CgroupError::ReadMounts { path, source: Box::new(source) })?;
    // A later mount at the same path hides the earlier one.
    let top = mounts.iter().rfind(|mount| mount.mount_point == settings.mount);
    if top.is_some_and(|mount| mount.fs_type == "cgroup2") {
        let controllers = files::read(&settings.mount.join("cgroup.controllers"))?;
        let controllers = controllers.split_whitespace().map(String::from).collect();
        let unified = Hierarchy { mount: settings.mount.clone(), controllers, role: Role::Controlling };
        return Ok((CgroupVersion::V2, vec![unified]));
    }
    let hierarchies = v1_hierarchies(&mounts, &settings.mount);
    if hierarchies.iter().any(|hierarchy| hierarchy.role == Role::Controlling) {
        Ok((CgroupVersion::V1, hierarchies))
    } else {
        Err(CgroupError::NotMounted { mount: settings.mount.clone() })
    }
}

/// The v1 hierarchies, and the v2 one of a hybrid host. One that is mounted twice counts once, at the shorter path.
fn v1_hierarchies(mounts: &MountInfos, top: &Path) -> Vec<Hierarchy> {
    let mut found: Vec<(&str, Hierarchy)> = Vec::new();
    for mount in mounts.iter().filter(|mount| mount.mount_point.starts_with(top)) {
        let Some(hierarchy) = hierarchy_of(mount) else { continue };
        match found.iter_mut().find(|(device, _)| *device == mount.majmin) {
            None => found.push((&mount.majmin, hierarchy)),
            Some((_, known)) if hierarchy.mount.as_os_str().len() < known.mount.as_os_str().len() => {
                *known = hierarchy
            }
            Some(_) => {}
        }
    }
    found.into_iter().map(|(_, hierarchy)| hierarchy).collect()
}

fn hierarchy_of(mount: &MountInfo) -> Option<Hierarchy> {
    let (controllers, role) = match mount.fs_type.as_str() {
        "cgroup" => {
            let mut controllers: Vec<String> = V1_CONTROLLERS
                .iter()
                .filter(|name| mount.super_options.contains_key(**name))
                .map(|n| (*n).into())
                .collect();
            if let Some(Some(name)) = mount.super_options.get("name") {
                controllers.push(format!("name={name}"));
            }
            (controllers, Role::Controlling)
        }
        "cgroup2" => (Vec::new(), Role::Cleaned),
        _ => return None,
    };
    Some(Hierarchy { mount: mount.mount_point.clone(), controllers, role })
}

/// Fails unless the hierarchies have the controllers that pods need and are writable.
pub(super) fn check(
    version: CgroupVersion,
    hierarchies: &[Hierarchy],
    settings: &CgroupSettings,
) -> Result<(), CgroupError> {
    let mut missing = written(settings.pids_limit);
    match version {
        CgroupVersion::V1 => missing.extend(V1_ALSO_REQUIRED),
        CgroupVersion::V2 => missing.extend(V2_ALSO_REQUIRED),
    }
    missing.retain(|name| !hierarchies.iter().any(|hierarchy| hierarchy.controls(name)));
    if !missing.is_empty() {
        return Err(CgroupError::MissingControllers { version, mount: settings.mount.clone(), missing });
    }
    for hierarchy in hierarchies.iter().filter(|hierarchy| hierarchy.role == Role::Controlling) {
        access(&hierarchy.mount, AccessFlags::W_OK).map_err(|errno| CgroupError::NotWritable {
            path: hierarchy.mount.clone(),
            source: errno.into(),
        })?;
    }
    Ok(())
}

/// The controllers to which a pod's settings are written.
pub(super) fn written(pids_limit: Option<i64>) -> Vec<&'static str> {
    let mut names = vec!["cpu", "memory"];
    if pids_limit.is_some_and(|limit| limit > 0) {
        names.push("pids");
    }
    names
}
