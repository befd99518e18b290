//! Facts of the machine that are constant while the daemon runs. Read-only.

use std::fs;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use nix::unistd::Uid;
use procfs::{CpuInfo, FromRead, Meminfo};

use super::SysError;

/// The machine, read through procfs at `proc`.
#[derive(Clone, Debug)]
pub struct Host {
    proc: PathBuf,
}

impl Host {
    /// The machine whose procfs is mounted at `proc`, which is `/proc` outside tests.
    pub fn new(proc: &Path) -> Self {
        Self { proc: proc.to_owned() }
    }

    /// The kernel's hostname, unmodified.
    pub fn hostname(&self) -> Result<String, SysError> {
        self.line("sys/kernel/hostname")
    }

    /// Memory of the machine, bytes.
    pub fn memory_capacity(&self) -> Result<u64, SysError> {
        self.meminfo().map(|info| info.mem_total)
    }

    /// Swap of the machine, bytes.
    pub fn swap_capacity(&self) -> Result<u64, SysError> {
        self.meminfo().map(|info| info.swap_total)
    }

    /// Whether any swap is in use. A kernel without swap has none.
    pub fn swap_active(&self) -> Result<bool, SysError> {
        match self.text("swaps") {
            // A heading, then a line per swap device or file (proc_swaps(5)).
            Ok(text) => Ok(text.lines().skip(1).any(|line| !line.trim().is_empty())),
            Err(SysError::Read { source, .. }) if source.kind() == std::io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Online CPUs, independent of this process's affinity. At least 1.
    pub(crate) fn cpu_count(&self) -> Result<usize, SysError> {
        let path = self.proc.join("cpuinfo");
        match CpuInfo::from_file(&path) {
            Ok(info) => Ok(info.num_cores().max(1)),
            Err(source) => Err(SysError::ReadProc { path, source: Box::new(source) }),
        }
    }

    /// Maximum number of processes and threads, limited by PIDs and memory.
    pub(crate) fn pid_capacity(&self) -> Result<u64, SysError> {
        Ok(self.number("sys/kernel/pid_max")?.min(self.number("sys/kernel/threads-max")?))
    }

    /// The boot ID, which changes with each reboot.
    pub fn boot_id(&self) -> Result<String, SysError> {
        self.line("sys/kernel/random/boot_id")
    }

    /// When the machine booted, to the second.
    pub fn booted_at(&self) -> Result<Timestamp, SysError> {
        let text = self.text("stat")?;
        let seconds = text.lines().find_map(|line| line.strip_prefix("btime ")?.trim().parse().ok());
        let booted_at = seconds.and_then(|seconds| Timestamp::from_second(seconds).ok());
        booted_at.ok_or_else(|| SysError::Read {
            path: self.proc.join("stat"),
            source: std::io::Error::from(std::io::ErrorKind::InvalidData),
        })
    }

    /// The kernel's release, e.g. `6.1.0-18-amd64`.
    pub fn kernel_version(&self) -> Result<String, SysError> {
        self.line("sys/kernel/osrelease")
    }

    fn meminfo(&self) -> Result<Meminfo, SysError> {
        let path = self.proc.join("meminfo");
        Meminfo::from_file(&path).map_err(|source| SysError::ReadProc { path, source: Box::new(source) })
    }

    fn number(&self, file: &str) -> Result<u64, SysError> {
        let line = self.line(file)?;
        line.parse().map_err(|error| SysError::Read {
            path: self.proc.join(file),
            source: std::io::Error::new(std::io::ErrorKind::InvalidData, error),
        })
    }

    fn line(&self, file: &str) -> Result<String, SysError> {
        self.text(file).map(|text| text.trim().to_owned())
    }

    fn text(&self, file: &str) -> Result<String, SysError> {
        let path = self.proc.join(file);
        fs::read_to_string(&path).map_err(|source| SysError::Read { path, source })
    }
}

/// Fails unless running as root, which is required for mounts, cgroups and other users' files.
pub fn root_check() -> Result<(), SysError> {
    let uid = Uid::effective();
    if uid.is_root() { Ok(()) } else { Err(SysError::NotRoot { uid: uid.as_raw() }) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::MEMINFO;

    fn fake(files: &[(&str, &str)]) -> (tempfile::TempDir, Host) {
        let dir = tempfile::tempdir().unwrap();
        for (file, text) in files {
            let path = dir.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let host = Host::new(dir.path());
        (dir, host)
    }

    #[test]
    fn facts_of_a_made_up_machine() {
        let (_dir, host) = fake(&[
            ("sys/kernel/hostname", "Node-1.example\n"),
            ("sys/kernel/random/boot_id", "9fdb3f13-fb26-4189-b823-05c64dea1875\n"),
            ("meminfo", MEMINFO),
            ("stat", "cpu  1 2 3\nctxt 4\nbtime 1795382000\nprocesses 5\n"),
            (
                "cpuinfo",
                "processor\t: 0\nmodel name\t: x\n\nprocessor\t: 1\nmodel name\t: x\n\nprocessor\t: 3\nmodel name\t: x\n\n",
            ),
        ]);
        assert_eq!(host.hostname().unwrap(), "Node-1.example");
        assert_eq!(host.boot_id().unwrap(), "9fdb3f13-fb26-4189-b823-05c64dea1875");
        assert_eq!(host.memory_capacity().unwrap(), 3_975_224 * 1024);
        assert_eq!(host.cpu_count().unwrap(), 3);
        assert_eq!(host.booted_at().unwrap().as_second(), 1_795_382_000);
        assert!(!host.swap_active().unwrap(), "a kernel without swap has no such file");
    }

    #[test]
    fn swap_is_active_when_a_line_follows_the_heading() {
        let heading = "Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n";
        assert!(!fake(&[("swaps", heading)]).1.swap_active().unwrap());
        let active = format!("{heading}/dev/sdb2                               partition\t8388604\t0\t-2\n");
        assert!(fake(&[("swaps", &active)]).1.swap_active().unwrap());
    }

    #[test]
    fn facts_of_this_machine_are_plausible_and_missing_ones_are_named() {
        let host = Host::new(Path::new("/proc"));
        assert!(!host.hostname().unwrap().is_empty());
        assert!(host.memory_capacity().unwrap() > 1 << 20);
        assert!(host.cpu_count().unwrap() >= 1);
        assert_eq!(host.boot_id().unwrap().len(), 36);
        host.swap_active().unwrap();
        let error = Host::new(Path::new("/nowhere")).memory_capacity().unwrap_err();
        assert_eq!(error.to_string(), "cannot read /nowhere/meminfo");
    }
}
