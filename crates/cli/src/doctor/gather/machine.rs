//! Facts of the machine and its control groups.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use hostlet_base::settings::EnforcedReservation;
use hostlet_base::{CgroupDriver, error_chain};
use hostlet_config::Config;
use hostlet_host::cgroup::{CgroupSettings, Cgroups};
use hostlet_host::{Host, KernelMounts, Mounts, clock_is_synchronized};
use jiff::Timestamp;
use nix::sys::statvfs::{FsFlags, statvfs};

use super::super::facts::{
    CgroupFacts, CgroupHierarchy, DiskFacts, MachineFacts, ReservedCgroup, Seen, Unseen,
};

/// containerd's files, with the images.
const CONTAINERD: &str = "/var/lib/containerd";

pub(super) fn machine(root: &Path, config: &Config) -> MachineFacts {
    let proc = root.join("proc");
    let host = Host::new(&proc);
    let number = |file: &str| {
        let text = text(&proc.join(file))?;
        text.trim().parse().map_err(|_| Unseen(format!("{file} has no number")))
    };
    let lines = |text: String| {
        text.lines().filter_map(|line| line.split_whitespace().last().map(str::to_owned)).collect()
    };
    let swap = match text(&proc.join("swaps")) {
        Ok(text) => Ok(text
            .lines()
            .skip(1)
            .filter_map(|line| line.split_whitespace().next())
            .map(str::to_owned)
            .collect()),
        // A kernel without swap.
        Err(_) if !proc.join("swaps").exists() => Ok(Vec::new()),
        Err(why) => Err(why),
    };
    MachineFacts {
        kernel: host.kernel_version().map_err(|error| Unseen(error.to_string())),
        filesystems: text(&proc.join("filesystems")).map(lines),
        swap,
        not_before: modified(&proc.join("self/exe")),
        is_synchronized: clock_is_synchronized(),
        disks: disks(&[&config.root_dir, &config.pods.logs_dir, Path::new(CONTAINERD)]),
        // The daemon makes its own directory a shared mount.
        unshared_mount: unshared_mount(&proc, Path::new("/")),
        inotify_instances: number("sys/fs/inotify/max_user_instances"),
        inotify_watches: number("sys/fs/inotify/max_user_watches"),
    }
}

fn unshared_mount(proc: &Path, dir: &Path) -> Seen<Option<PathBuf>> {
    let table = KernelMounts { mountinfo: proc.join("self/mountinfo") }.table();
    let table = table.map_err(|error| Unseen(error.to_string()))?;
    Ok(table.of(dir).filter(|mount| !mount.is_shared).map(|mount| mount.point.clone()))
}

pub(super) fn cgroups(root: &Path, config: &Config, driver: CgroupDriver) -> CgroupFacts {
    let mount = root.join("sys/fs/cgroup");
    let words = |text: String| text.split_whitespace().map(str::to_owned).collect();
    let hierarchy = match text(&mount.join("cgroup.controllers")) {
        Ok(text) => Ok((CgroupHierarchy::V2, words(text))),
        Err(why) => {
            enabled(&root.join("proc/cgroups"), &mount).map(|all| (CgroupHierarchy::V1, all)).map_err(|_| why)
        }
    };
    let has_systemd = root.join("run/systemd/system").exists();
    CgroupFacts { hierarchy, has_systemd, reserved: reserved(root, config, driver) }
}

/// The cgroups of enforced reservations. Whether this user may write them is not looked at.
fn reserved(root: &Path, config: &Config, driver: CgroupDriver) -> Vec<ReservedCgroup> {
    let settings = CgroupSettings::of_existing(driver, &config.cgroups.root, root);
    let opened = Cgroups::open(CgroupSettings { per_qos: false, ..settings });
    let found = |reservation: &EnforcedReservation| {
        let exists = match &opened {
            Ok(cgroups) => {
                cgroups.require_daemons(&reservation.cgroup).map_err(|error| Unseen(error_chain(&error)))
            }
            Err(error) => Err(Unseen(error_chain(error))),
        };
        ReservedCgroup { word: reservation.word(), cgroup: reservation.cgroup.clone(), exists }
    };
    config.cgroups.enforced_reservations.iter().map(found).collect()
}

/// The controllers of version 1 that are enabled (cgroups(7)) and mounted.
fn enabled(file: &Path, mount: &Path) -> Seen<BTreeSet<String>> {
    let text = text(file)?;
    let enabled = text.lines().filter(|line| !line.starts_with('#')).filter_map(|line| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        (fields.get(3) == Some(&"1")).then(|| fields[0].to_owned())
    });
    let mounted: BTreeSet<String> = enabled.filter(|name| mount.join(name).exists()).collect();
    if mounted.is_empty() { Err(Unseen("no controller is mounted".to_owned())) } else { Ok(mounted) }
}

/// The filesystems of these directories, each once.
fn disks(paths: &[&Path]) -> Vec<(PathBuf, Seen<DiskFacts>)> {
    let mut devices = BTreeSet::new();
    let mut disks = Vec::new();
    for path in paths {
        // A directory that is created later is on the filesystem of its parent.
        let Some(exists) = path.ancestors().find(|path| path.exists()) else { continue };
        if fs::metadata(exists).is_ok_and(|found| !devices.insert(found.dev())) {
            continue;
        }
        disks.push(((*path).to_owned(), disk(exists)));
    }
    disks
}

#[allow(clippy::unnecessary_cast, reason = "the types differ between platforms")]
fn disk(path: &Path) -> Seen<DiskFacts> {
    let stat = statvfs(path).map_err(|errno| Unseen(errno.desc().to_owned()))?;
    let unit = stat.fragment_size() as u64;
    Ok(DiskFacts {
        size: stat.blocks() as u64 * unit,
        free: stat.blocks_available() as u64 * unit,
        inodes: stat.files() as u64,
        inodes_free: stat.files_available() as u64,
        is_read_only: stat.flags().contains(FsFlags::ST_RDONLY),
    })
}

fn modified(path: &Path) -> Option<Timestamp> {
    fs::metadata(path).ok()?.modified().ok()?.try_into().ok()
}

pub(super) fn text(path: &Path) -> Seen<String> {
    fs::read_to_string(path).map_err(|error| Unseen(format!("{}: {error}", path.display())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use hostlet_base::ResourceList;
    use hostlet_base::settings::Daemons;
    use hostlet_config::{KubeletFlags, load};

    #[test]
    fn both_versions_of_control_groups_are_told_apart() {
        let root = tempfile::tempdir().unwrap();
        let at = |path: &str| root.path().join(path);
        fs::create_dir_all(at("sys/fs/cgroup/memory")).unwrap();
        fs::create_dir_all(at("proc")).unwrap();
        let config = load(&KubeletFlags::default(), "node1").unwrap().config;
        let cgroups = |root: &Path| cgroups(root, &config, CgroupDriver::Cgroupfs);
        assert!(cgroups(root.path()).hierarchy.is_err());
        fs::write(
            at("proc/cgroups"),
            "#subsys_name\thierarchy\tnum_cgroups\tenabled\ncpu\t1\t2\t1\nmemory\t0\t1\t0\n",
        )
        .unwrap();
        assert!(cgroups(root.path()).hierarchy.is_err(), "neither is enabled and mounted");
        fs::write(at("proc/cgroups"), "cpu\t1\t2\t1\nmemory\t3\t1\t1\n").unwrap();
        let memory = BTreeSet::from(["memory".to_owned()]);
        assert_eq!(cgroups(root.path()).hierarchy, Ok((CgroupHierarchy::V1, memory.clone())));
        fs::write(at("sys/fs/cgroup/cgroup.controllers"), "memory\n").unwrap();
        assert_eq!(cgroups(root.path()).hierarchy, Ok((CgroupHierarchy::V2, memory)));
        assert!(!cgroups(root.path()).has_systemd);
    }

    #[test]
    fn the_cgroups_of_enforced_reservations_are_looked_for() {
        let root = tempfile::tempdir().unwrap();
        let mount = root.path().join("sys/fs/cgroup");
        fs::create_dir_all(mount.join("system.slice")).unwrap();
        fs::create_dir_all(root.path().join("proc/self")).unwrap();
        fs::write(mount.join("cgroup.controllers"), "cpu memory pids\n").unwrap();
        let line = format!("31 20 0:28 / {} rw - cgroup2 cgroup rw", mount.display());
        let mut config = load(&KubeletFlags::default(), "node1").unwrap().config;
        let reservation = |daemons, cgroup: &str| EnforcedReservation {
            daemons,
            is_compressible: false,
            cgroup: cgroup.to_owned(),
            resources: ResourceList::default(),
        };
        config.cgroups.enforced_reservations =
            vec![reservation(Daemons::System, "/system.slice"), reservation(Daemons::Kube, "/kube")];
        let exist = || {
            let found = reserved(root.path(), &config, CgroupDriver::Cgroupfs);
            [(found[0].word, found[0].exists.is_ok()), (found[1].word, found[1].exists.is_ok())]
        };
        assert_eq!(exist(), [("system-reserved", false), ("kube-reserved", false)], "nothing is mounted");
        fs::write(root.path().join("proc/self/mountinfo"), line).unwrap();
        assert_eq!(exist(), [("system-reserved", true), ("kube-reserved", false)]);
    }

    #[test]
    fn the_mount_of_a_directory_may_not_be_shared() {
        let proc = tempfile::tempdir().unwrap();
        fs::create_dir(proc.path().join("self")).unwrap();
        let lines = "20 1 0:20 / / rw shared:1 - ext4 /dev/sda rw\n21 20 0:21 / /var rw - ext4 /dev/sdb rw\n";
        fs::write(proc.path().join("self/mountinfo"), lines).unwrap();
        let of = |dir: &str| unshared_mount(proc.path(), Path::new(dir));
        assert_eq!(of("/srv/kubelet"), Ok(None));
        assert_eq!(of("/var/lib/kubelet"), Ok(Some("/var".into())));
        assert!(unshared_mount(Path::new("/nowhere"), Path::new("/")).is_err());
    }

    #[test]
    fn directories_on_one_filesystem_are_one_disk() {
        let root = tempfile::tempdir().unwrap();
        let disks = disks(&[root.path(), &root.path().join("later/deep")]);
        assert_eq!(disks.len(), 1);
        assert!(disks[0].1.as_ref().unwrap().size > 0);
    }
}
