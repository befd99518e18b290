//! How many cores and sockets the CPUs of the machine are. Read-only.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// The physical parts behind the CPUs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuTopology {
    /// Cores; each may be several CPUs.
    pub cores: usize,
    /// Physical packages.
    pub sockets: usize,
}

impl CpuTopology {
    /// Reads it from sysfs at `sys`. What is not readable is not counted.
    pub fn read(sys: &Path) -> Self {
        let Ok(entries) = fs::read_dir(sys.join("devices/system/cpu")) else { return Self::default() };
        let (mut cores, mut sockets) = (BTreeSet::new(), BTreeSet::new());
        for entry in entries.flatten() {
            let number = |file: &str| {
                fs::read_to_string(entry.path().join("topology").join(file)).ok()?.trim().parse::<i64>().ok()
            };
            let (Some(socket), Some(core)) = (number("physical_package_id"), number("core_id")) else {
                continue;
            };
            sockets.insert(socket);
            cores.insert((socket, core));
        }
        Self { cores: cores.len(), sockets: sockets.len() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_of_a_core_are_one_core() {
        let sys = tempfile::tempdir().unwrap();
        for (cpu, socket, core) in [(0, 0, 0), (1, 0, 1), (2, 0, 0), (3, 1, 0)] {
            let dir = sys.path().join(format!("devices/system/cpu/cpu{cpu}/topology"));
            fs::create_dir_all(&dir).unwrap();
            fs::write(dir.join("physical_package_id"), format!("{socket}\n")).unwrap();
            fs::write(dir.join("core_id"), format!("{core}\n")).unwrap();
        }
        fs::create_dir_all(sys.path().join("devices/system/cpu/cpufreq")).unwrap();
        assert_eq!(CpuTopology::read(sys.path()), CpuTopology { cores: 3, sockets: 2 });
        assert_eq!(CpuTopology::read(Path::new("/nowhere")), CpuTopology::default());
    }
}
