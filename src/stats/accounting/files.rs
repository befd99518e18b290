//! The files of cgroups: where each controller has them, and reading them with one buffer. A file that is missing, because the kernel
//! has no such file or the cgroup is gone, is `None`.

use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

use jiff::Timestamp;

use super::{v1, v2};
use crate::cgroup::{CgroupVersion, Cgroups};
use crate::stats::parse;
use crate::stats::usage::{CgroupUsage, Detail, ProcessUsage};

/// Larger than any of these files but the process list of a huge cgroup.
const BUFFER: usize = 8 * 1024;

/// Where the controllers that count have their cgroups. One that the host lacks is `None`.
#[derive(Clone, Debug)]
pub(crate) struct Accounting {
    /// The version.
    pub(super) version: CgroupVersion,
    /// CPU time; with v2, as all others, the unified hierarchy.
    pub(super) cpu_time: Option<PathBuf>,
    /// Settings and throttling of the CPU.
    pub(super) cpu: Option<PathBuf>,
    /// Memory.
    pub(super) memory: Option<PathBuf>,
    /// Block devices.
    pub(super) io: Option<PathBuf>,
    /// Processes and threads.
    pub(super) pids: Option<PathBuf>,
}

impl Accounting {
    /// Those of this host.
    pub(crate) fn of(cgroups: &Cgroups) -> Self {
        let mount = |v1: &str, v2: &str| {
            let controller = match cgroups.version() {
                CgroupVersion::V1 => v1,
                CgroupVersion::V2 => v2,
            };
            cgroups.mount_of(controller).map(Path::to_owned)
        };
        Self {
            version: cgroups.version(),
            cpu_time: mount("cpuacct", "cpu"),
            cpu: mount("cpu", "cpu"),
            memory: mount("memory", "memory"),
            io: mount("blkio", "io"),
            pids: mount("pids", "pids"),
        }
    }
}

/// Reads cgroups one after the other. Blocking, but cgroupfs is in memory.
pub(crate) struct Reader<'a> {
    accounting: &'a Accounting,
    proc: &'a Path,
    buffer: Vec<u8>,
}

impl<'a> Reader<'a> {
    /// A reader, with procfs at `proc`.
    pub(crate) fn new(accounting: &'a Accounting, proc: &'a Path) -> Self {
        Self { accounting, proc, buffer: Vec::with_capacity(BUFFER) }
    }

    /// What the cgroup at `path` below the mounts uses; `None` if it does not exist.
    pub(crate) fn read(&mut self, path: &str, detail: Detail, now: Timestamp) -> Option<CgroupUsage> {
        let created_at = self.created_at(path)?;
        let mut usage = CgroupUsage { at: now, created_at, ..CgroupUsage::default() };
        match self.accounting.version {
            CgroupVersion::V1 => v1::read(self, path, &mut usage),
            CgroupVersion::V2 => v2::read(self, path, &mut usage),
        }
        usage.memory.working_set = usage.memory.usage.saturating_sub(usage.memory.inactive_file);
        match (detail, self.accounting.version) {
            (Detail::CpuAndMemory, _) => return Some(usage),
            (Detail::All, CgroupVersion::V1) => v1::read_rest(self, path, &mut usage),
            (Detail::All, CgroupVersion::V2) => v2::read_rest(self, path, &mut usage),
        }
        usage.processes = self.processes(path);
        Some(usage)
    }

    /// The directories in the cgroup at `path`.
    pub(crate) fn children(&self, path: &str) -> Vec<String> {
        let directory = self.accounting.memory.as_deref().map(|mount| below(mount, path));
        let Some(Ok(entries)) = directory.map(fs::read_dir) else { return Vec::new() };
        let is_dir = |entry: &fs::DirEntry| entry.file_type().is_ok_and(|kind| kind.is_dir());
        let names = entries.flatten().filter(is_dir).map(|entry| entry.file_name().into_string());
        names.flatten().collect()
    }

    /// The text of a file of procfs.
    pub(crate) fn proc_text(&mut self, file: &str) -> Option<&str> {
        let path = self.proc.join(file);
        self.load(&path)
    }

    /// The creation of the cgroup: nothing else changes the time of this file, which changes that of the directory.
    fn created_at(&self, path: &str) -> Option<Timestamp> {
        let directory = below(self.accounting.memory.as_deref()?, path);
        let file = match self.accounting.version {
            CgroupVersion::V1 => "cgroup.clone_children",
            CgroupVersion::V2 => "cgroup.events",
        };
        let modified = |path: &Path| Timestamp::try_from(fs::metadata(path).ok()?.modified().ok()?).ok();
        let of_directory = modified(&directory)?;
        Some(modified(&directory.join(file)).map_or(of_directory, |of_file| of_file.min(of_directory)))
    }

    /// The text of a file of a cgroup.
    pub(super) fn text(&mut self, mount: Option<&Path>, path: &str, file: &str) -> Option<&str> {
        let mut place = below(mount?, path);
        place.push(file);
        self.load(&place)
    }

    /// The number in a file of a cgroup.
    pub(super) fn number(&mut self, mount: Option<&Path>, path: &str, file: &str) -> Option<u64> {
        parse::number(self.text(mount, path, file)?)
    }

    /// The limit in a file of a cgroup.
    pub(super) fn limit(&mut self, mount: Option<&Path>, path: &str, file: &str) -> Option<u64> {
        self.number(mount, path, file).filter(is_limit)
    }

    /// The limit of swap. A kernel without accounting of swap has no such file, and upstream reads 0.
    pub(super) fn swap_limit(&mut self, path: &str, file: &str) -> Option<u64> {
        let limit = self.number(self.accounting.memory.as_deref(), path, file).unwrap_or_default();
        Some(limit).filter(is_limit)
    }

    /// Hands over each `key value` of a file of a cgroup.
    pub(super) fn each(
        &mut self,
        mount: Option<&Path>,
        path: &str,
        file: &str,
        take: impl FnMut((&str, u64)),
    ) {
        parse::flat(self.text(mount, path, file).unwrap_or_default()).for_each(take);
    }

    /// The processes of a cgroup, and its threads.
    fn processes(&mut self, path: &str) -> ProcessUsage {
        let accounting = self.accounting;
        let list = self.text(accounting.memory.as_deref(), path, "cgroup.procs").unwrap_or_default();
        // A process of another PID namespace has the number 0.
        let first = list.lines().next().and_then(|pid| pid.parse().ok()).filter(|pid| *pid != 0);
        let processes = u64::try_from(list.lines().count()).unwrap_or(u64::MAX);
        let limits = first.and_then(|pid: u32| self.proc_text(&format!("{pid}/limits")));
        let open_files_limit = limits.and_then(parse::open_files_limit);
        let pids = accounting.pids.as_deref();
        ProcessUsage {
            processes,
            first,
            open_files_limit,
            threads: self.number(pids, path, "pids.current").unwrap_or_default(),
            threads_max: self.limit(pids, path, "pids.max").unwrap_or_default(),
        }
    }

    /// Where the controllers are.
    pub(super) fn accounting(&self) -> &'a Accounting {
        self.accounting
    }

    fn load(&mut self, path: &Path) -> Option<&str> {
        self.buffer.clear();
        File::open(path).and_then(|mut file| file.read_to_end(&mut self.buffer)).ok()?;
        std::str::from_utf8(&self.buffer).ok()
    }
}

/// Upstream considers what is beyond 4 EiB no limit, since v1 rounds its largest value.
fn is_limit(bytes: &u64) -> bool {
    *bytes <= 1 << 62
}

fn below(mount: &Path, path: &str) -> PathBuf {
    mount.join(path.trim_start_matches('/'))
}
