//! Machine facts for the Node: sizes and identities. Read-only; an unreadable identity is empty.

mod cpu_topology;
mod numa;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use super::{Host, SysError, filesystem_usage};

pub use cpu_topology::CpuTopology;
pub use numa::{CpuLocation, NodeFacts, NumaTopology};

/// Facts of a machine for its Node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Machine {
    /// How many CPUs are online.
    pub cpus: usize,
    /// The online CPUs as a list, e.g. `0-3`; empty if the kernel does not show it.
    pub cpu_list: String,
    /// Memory in bytes.
    pub memory: u64,
    /// Swap in bytes; 0 without swap.
    pub swap: u64,
    /// Maximum number of processes and threads.
    pub pids: u64,
    /// Bytes reserved for huge pages by page size in bytes, including sizes without pages.
    pub huge_pages: BTreeMap<u64, u64>,
    /// Size of the root directory's filesystem in bytes.
    pub filesystem: u64,
    /// Machine ID of the operating system.
    pub machine_id: String,
    /// UUID of the hardware or virtual machine.
    pub system_uuid: String,
    /// A UUID that the kernel chooses at each boot.
    pub boot_id: String,
    /// Release of the kernel.
    pub kernel_version: String,
    /// Human-readable name and version of the operating system.
    pub os_image: String,
    /// Whether AppArmor is enabled.
    pub app_armor: bool,
    /// Whether the daemon runs in a user namespace other than the initial one (user_namespaces(7)).
    pub in_user_namespace: bool,
}

impl Machine {
    /// Reads the facts below `root`, which is `/` outside tests. `own` is the root directory (`--root-dir`).
    pub fn read(root: &Path, own: &Path) -> Result<Self, SysError> {
        let host = Host::new(&root.join("proc"));
        let machine_id = first(root, &["etc/machine-id", "var/lib/dbus/machine-id"]);
        let uuids = ["sys/class/dmi/id/product_uuid", "proc/device-tree/vm,uuid"];
        Ok(Self {
            cpus: host.cpu_count()?,
            cpu_list: first(root, &["sys/devices/system/cpu/online"]).unwrap_or_default(),
            memory: host.memory_capacity()?,
            swap: host.swap_capacity()?,
            pids: host.pid_capacity()?,
            huge_pages: huge_pages(&root.join("sys/kernel/mm/hugepages")),
            filesystem: filesystem_usage(own)?.capacity,
            system_uuid: first(root, &uuids).or_else(|| machine_id.clone()).unwrap_or_default(),
            machine_id: machine_id.unwrap_or_default(),
            boot_id: host.boot_id()?,
            kernel_version: host.kernel_version()?,
            os_image: os_image(root).unwrap_or_else(|| "Linux".to_owned()),
            app_armor: app_armor(root),
            in_user_namespace: in_user_namespace(root),
        })
    }
}

/// The content of the first non-empty file.
fn first(root: &Path, files: &[&str]) -> Option<String> {
    files.iter().find_map(|file| {
        let text = fs::read_to_string(root.join(file)).ok()?;
        // Device tree strings end with NUL.
        let text = text.trim_matches(|c: char| c.is_whitespace() || c == '\0');
        (!text.is_empty()).then(|| text.to_owned())
    })
}

/// Whether the kernel has AppArmor and uses it.
fn app_armor(root: &Path) -> bool {
    let enabled = fs::read_to_string(root.join("sys/module/apparmor/parameters/enabled")).unwrap_or_default();
    enabled.starts_with('Y') && root.join("sys/kernel/security/apparmor").exists()
}

/// The initial user namespace maps every ID to itself in one line. A kernel without user namespaces has no map.
fn in_user_namespace(root: &Path) -> bool {
    let Ok(map) = fs::read_to_string(root.join("proc/self/uid_map")) else { return false };
    let numbers: Vec<&str> = map.split_whitespace().collect();
    numbers != ["0", "0", "4294967295"]
}

/// `PRETTY_NAME` (os-release(5)).
fn os_image(root: &Path) -> Option<String> {
    let files = ["etc/os-release", "usr/lib/os-release"];
    let text = files.iter().find_map(|file| fs::read_to_string(root.join(file)).ok())?;
    let name = text.lines().find_map(|line| line.strip_prefix("PRETTY_NAME="))?;
    Some(name.trim().trim_matches(['"', '\'']).to_owned())
}

fn huge_pages(dir: &Path) -> BTreeMap<u64, u64> {
    // A kernel without huge pages has no such directory.
    let Ok(entries) = fs::read_dir(dir) else { return BTreeMap::new() };
    let pool = |entry: fs::DirEntry| {
        let name = entry.file_name().into_string().ok()?;
        let size = name.strip_prefix("hugepages-")?.strip_suffix("kB")?.parse::<u64>().ok()? << 10;
        let pages = fs::read_to_string(entry.path().join("nr_hugepages")).ok()?;
        Some((size, size.saturating_mul(pages.trim().parse().ok()?)))
    };
    entries.filter_map(|entry| pool(entry.ok()?)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::MEMINFO;

    #[test]
    fn facts_of_a_made_up_machine() {
        let root = tempfile::tempdir().unwrap();
        let files = [
            ("proc/meminfo", MEMINFO),
            ("sys/devices/system/cpu/online", "0-1\n"),
            ("proc/cpuinfo", "processor\t: 0\n\nprocessor\t: 1\n\n"),
            ("proc/sys/kernel/pid_max", "4194304\n"),
            ("proc/sys/kernel/threads-max", "31050\n"),
            ("proc/sys/kernel/random/boot_id", "9fdb3f13-fb26-4189-b823-05c64dea1875\n"),
            ("proc/sys/kernel/osrelease", "6.1.0-18-amd64\n"),
            ("proc/device-tree/vm,uuid", "4c4c4544-0042\0"),
            ("proc/self/uid_map", "         0     100000      65536\n"),
            ("etc/machine-id", "\n"),
            ("var/lib/dbus/machine-id", "0123456789abcdef\n"),
            ("usr/lib/os-release", "NAME=\"Debian\"\nPRETTY_NAME=\"Debian GNU/Linux 12 (bookworm)\"\n"),
            ("sys/module/apparmor/parameters/enabled", "Y\n"),
            ("sys/kernel/security/apparmor/profiles", ""),
            ("sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages", "3\n"),
            ("sys/kernel/mm/hugepages/hugepages-1048576kB/nr_hugepages", "0\n"),
        ];
        for (file, text) in files {
            let path = root.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let machine = Machine::read(root.path(), root.path()).unwrap();
        assert!(machine.filesystem > 0);
        let expected = Machine {
            cpus: 2,
            cpu_list: "0-1".to_owned(),
            memory: 3_975_224 << 10,
            swap: 2048 << 10,
            pids: 31_050,
            huge_pages: BTreeMap::from([(2 << 20, 6 << 20), (1 << 30, 0)]),
            filesystem: machine.filesystem,
            machine_id: "0123456789abcdef".to_owned(),
            system_uuid: "4c4c4544-0042".to_owned(),
            boot_id: "9fdb3f13-fb26-4189-b823-05c64dea1875".to_owned(),
            kernel_version: "6.1.0-18-amd64".to_owned(),
            os_image: "Debian GNU/Linux 12 (bookworm)".to_owned(),
            app_armor: true,
            in_user_namespace: true,
        };
        assert_eq!(machine, expected);
    }

    #[test]
    fn this_machine_can_be_read_and_a_missing_directory_is_named() {
        let machine = Machine::read(Path::new("/"), Path::new("/")).unwrap();
        assert!(machine.cpus > 0 && machine.memory > 0 && machine.filesystem > 0);
        let error = Machine::read(Path::new("/"), Path::new("/nowhere")).unwrap_err();
        assert_eq!(error.to_string(), "cannot measure the filesystem of /nowhere");
    }
}
