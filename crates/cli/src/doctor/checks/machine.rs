//! The machine: kernel, control groups, swap, clock, disks, mounts, inotify.

use hostlet_base::human_size;
use jiff::SignedDuration;

use super::super::facts::{CgroupHierarchy, DiskFacts, Facts, ReservedCgroup, Seen};
use super::super::report::Finding;

/// The oldest kernel with all that pods need. Cgroup v2 needs a later one
/// (<https://kubernetes.io/docs/concepts/architecture/cgroups/>).
const KERNEL: (u32, u32) = (4, 19);
const KERNEL_CGROUP_V2: (u32, u32) = (5, 8);

/// Controllers without which limits of pods are not enforced.
const CONTROLLERS: [&str; 4] = ["cpu", "cpuset", "memory", "pids"];

/// A kernel's default of `max_user_instances`. hostlet, containerd, systemd and containers share it.
const INOTIFY_INSTANCES: u64 = 128;
const INOTIFY_WATCHES: u64 = 8192;

pub(super) fn check(facts: &Facts) -> Vec<Finding> {
    let mut findings = vec![kernel(facts)];
    findings.extend(cgroups(facts));
    findings.extend(facts.cgroups.reserved.iter().map(reserved));
    findings.extend([swap(facts), clock(facts)]);
    findings
        .extend(facts.machine.disks.iter().map(|(path, disk)| disk_of(&path.display().to_string(), disk)));
    findings.extend([mounts(facts), inotify(facts)]);
    findings
}

/// Major and minor version of a release like `6.1.0-18-amd64`.
fn version(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit());
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

fn kernel(facts: &Facts) -> Finding {
    const CHECK: &str = "kernel";
    let release = match &facts.machine.kernel {
        Ok(release) => release,
        Err(why) => return Finding::unknown(CHECK, why.to_string()),
    };
    let is_v2 = matches!(&facts.cgroups.hierarchy, Ok((CgroupHierarchy::V2, _)));
    let needed = if is_v2 { KERNEL_CGROUP_V2 } else { KERNEL };
    let has_overlay = facts.machine.filesystems.as_ref().is_ok_and(|all| all.contains("overlay"));
    match version(release) {
        Some(found) if found < needed => {
            let text = format!("{release} is older than {}.{}", needed.0, needed.1);
            Finding::warning(CHECK, text, "upgrade the kernel")
        }
        Some(_) if facts.machine.filesystems.is_ok() && !has_overlay => Finding::warning(
            CHECK,
            format!(
                "{release}; the filesystem overlay is not loaded, which containerd uses for images by default"
            ),
            "modprobe overlay",
        ),
        Some(_) | None => Finding::ok(CHECK, release.clone()),
    }
}

fn cgroups(facts: &Facts) -> Vec<Finding> {
    const CHECK: &str = "cgroups";
    let (hierarchy, controllers) = match &facts.cgroups.hierarchy {
        Ok(seen) => seen,
        Err(why) => {
            let remedy = "mount them: mount -t cgroup2 cgroup2 /sys/fs/cgroup";
            return vec![Finding::wrong(CHECK, format!("control groups are not mounted: {why}"), remedy)];
        }
    };
    let mut findings = Vec::new();
    let missing: Vec<&str> = CONTROLLERS.into_iter().filter(|name| !controllers.contains(*name)).collect();
    let version = match hierarchy {
        CgroupHierarchy::V1 => "version 1",
        CgroupHierarchy::V2 => "version 2",
    };
    if !missing.is_empty() {
        let remedy = if missing.contains(&"memory") {
            "add cgroup_enable=memory cgroup_memory=1 to the kernel's command line (on a Raspberry Pi in \
             /boot/firmware/cmdline.txt), and reboot"
        } else {
            "enable them on the kernel's command line or in its configuration, and reboot"
        };
        let text = format!("{version}, without the controllers {}", missing.join(", "));
        findings.push(Finding::wrong(CHECK, text, remedy));
    }
    match hierarchy {
        CgroupHierarchy::V1 if facts.config.host.fail_cgroup_v1 => findings.push(Finding::wrong(
            CHECK,
            "version 1, and failCgroupV1 is true",
            "boot with version 2 (systemd.unified_cgroup_hierarchy=1 on the kernel's command line), or set failCgroupV1: false",
        )),
        CgroupHierarchy::V1 | CgroupHierarchy::V2 if missing.is_empty() => {
            findings.push(Finding::ok(CHECK, format!("{version}: {}", CONTROLLERS.join(", "))));
        }
        CgroupHierarchy::V1 | CgroupHierarchy::V2 => {}
    }
    findings
}

/// hostlet does not start without the cgroup of an enforced reservation, like the stock kubelet.
fn reserved(found: &ReservedCgroup) -> Finding {
    const CHECK: &str = "reserved cgroup";
    let ReservedCgroup { word, cgroup, exists } = found;
    match exists {
        Ok(()) => Finding::ok(CHECK, format!("{word}: {cgroup}")),
        Err(why) => Finding::wrong(
            CHECK,
            format!("{word}: {why}"),
            format!("create {cgroup} before hostlet starts, or remove {word} from enforceNodeAllocatable"),
        ),
    }
}

fn swap(facts: &Facts) -> Finding {
    const CHECK: &str = "swap";
    match &facts.machine.swap {
        Err(why) => Finding::unknown(CHECK, why.to_string()),
        Ok(devices) if devices.is_empty() => Finding::ok(CHECK, "none"),
        Ok(devices) if facts.config.host.fail_swap_on => Finding::wrong(
            CHECK,
            format!("{} is in use, and failSwapOn is true", devices.join(", ")),
            "swapoff -a, and remove it from /etc/fstab; or set failSwapOn: false",
        ),
        Ok(devices) => {
            Finding::ok(CHECK, format!("{} is in use, and failSwapOn is false", devices.join(", ")))
        }
    }
}

fn clock(facts: &Facts) -> Finding {
    const CHECK: &str = "clock";
    let now = facts.now.strftime("%Y-%m-%d %H:%M:%SZ").to_string();
    let day = SignedDuration::from_hours(24);
    if facts.machine.not_before.is_some_and(|before| before.duration_since(facts.now) > day) {
        return Finding::wrong(
            CHECK,
            format!(
                "it is {now}, which is before hostlet was installed: certificates count as not valid yet"
            ),
            "set the clock: timedatectl set-ntp true, or date --set",
        );
    }
    match facts.machine.is_synchronized {
        Some(true) => Finding::ok(CHECK, format!("{now}, synchronized")),
        Some(false) => {
            Finding::warning(CHECK, format!("{now}, not synchronized"), "timedatectl set-ntp true")
        }
        None => Finding::unknown(CHECK, format!("{now}; whether it is synchronized cannot be seen")),
    }
}

/// The stock kubelet's thresholds of eviction: 10 % of the space, 5 % of the inodes
/// (<https://kubernetes.io/docs/concepts/scheduling-eviction/node-pressure-eviction/>).
fn disk_of(path: &str, disk: &Seen<DiskFacts>) -> Finding {
    const CHECK: &str = "disk";
    let disk = match disk {
        Ok(disk) => disk,
        Err(why) => return Finding::unknown(CHECK, format!("{path}: {why}")),
    };
    let text = format!("{path}: {} of {} free", human_size(disk.free), human_size(disk.size));
    if disk.is_read_only {
        return Finding::wrong(
            CHECK,
            format!("{path} is on a read-only filesystem"),
            "mount it writable: mount -o remount,rw",
        );
    }
    if disk.free < disk.size / 10 {
        return Finding::warning(
            CHECK,
            text,
            "free some space: df -h shows the filesystems, hostlet images the images",
        );
    }
    if disk.inodes > 0 && disk.inodes_free < disk.inodes / 20 {
        let text = format!("{path}: {} of {} inodes free", disk.inodes_free, disk.inodes);
        return Finding::warning(CHECK, text, "remove files: df -i shows the filesystems");
    }
    Finding::ok(CHECK, text)
}

/// What is mounted in a volume reaches containers, or from a container the host, only below a shared mount
/// (<https://kubernetes.io/docs/concepts/storage/volumes/#mount-propagation>).
fn mounts(facts: &Facts) -> Finding {
    const CHECK: &str = "mounts";
    match &facts.machine.unshared_mount {
        Err(why) => Finding::unknown(CHECK, why.to_string()),
        Ok(None) => Finding::ok(CHECK, "shared"),
        Ok(Some(mount)) => Finding::warning(
            CHECK,
            format!(
                "the mount {} is not shared: containers whose hostPath volumes have mountPropagation do not start",
                mount.display()
            ),
            format!("mount --make-rshared {}, at each boot before containerd starts", mount.display()),
        ),
    }
}

fn inotify(facts: &Facts) -> Finding {
    const CHECK: &str = "inotify";
    let limits = (&facts.machine.inotify_instances, &facts.machine.inotify_watches);
    let (instances, watches) = match limits {
        (Ok(instances), Ok(watches)) => (*instances, *watches),
        (Err(why), _) | (_, Err(why)) => return Finding::unknown(CHECK, why.to_string()),
    };
    let text = format!("max_user_instances {instances}, max_user_watches {watches}");
    if instances < INOTIFY_INSTANCES || watches < INOTIFY_WATCHES {
        let remedy = "sysctl -w fs.inotify.max_user_instances=512 fs.inotify.max_user_watches=65536, and the same in \
                      /etc/sysctl.d/90-inotify.conf";
        return Finding::warning(
            CHECK,
            format!("{text}: a change of a manifest may be noticed late"),
            remedy,
        );
    }
    Finding::ok(CHECK, text)
}
